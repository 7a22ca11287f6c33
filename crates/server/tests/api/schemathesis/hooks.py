"""What no schema can say: rules between values, and values that only the server gives out.

A request whose values all have the form that the description asks for may be refused only by one of the words below. Each of them stands
for such a rule; `bad_request` and `bad_body` stand for a wrong form, and would be a contradiction.
"""

import json

import schemathesis

RULES = {
    # Values that cannot be meant together, or now.
    "unusable",
    # An empty filter would mean everything.
    "empty_filter",
    # A cursor comes out of an answer.
    "bad_cursor",
    # If-Match names another version than the one there is.
    "changed_since_plan",
    # The same key, another body.
    "idempotency_key_reused",
}


@schemathesis.hook
def filter_failure(context, failure, case, response):
    """Drops what is no contradiction: a request of the right form that one of the rules refuses, and any bytes as a file."""
    kind = type(failure).__name__
    # A form sends every value as bytes: a number in place of the file is a file with digits in it.
    if kind == "AcceptedNegativeData" and case.media_type == "multipart/form-data":
        return "violates `type` at /properties/file" not in str(failure.message)
    if kind != "RejectedPositiveData":
        return True
    # To a schema, lines of JSON are any text.
    if case.media_type == "application/jsonl":
        return False
    try:
        code = json.loads(response.content).get("code")
    except (ValueError, AttributeError):
        return True
    return code not in RULES
