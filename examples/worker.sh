#!/bin/sh
# A worker for Redrive with curl and nothing else.
#
#     ./worker.sh http://127.0.0.1:7117        (REDRIVE_TOKEN for a server that asks for one)
#
# It claims one run at a time and has `handle` do the work, which gets the answer to the claim on its stdin and ends with 0 if all went
# well. curl sends a call again when the answer is lost: the claim by its claim_id, the report by its task_id. With --once it ends when
# nothing is queued. Runs that take longer than 15 s need a heartbeat, which the loop in the background sends.
set -eu

server=$1
wait=30000
[ "${2-}" != --once ] || wait=0
worker="sh-$$"

handle() {
    cat >/dev/null
    echo "handling $id"
}

call() { # PATH BODY
    curl --silent --show-error --max-time 70 --retry 60 --retry-all-errors --retry-delay 1 \
        -H 'Content-Type: application/json' ${REDRIVE_TOKEN:+-H "Authorization: Bearer $REDRIVE_TOKEN"} \
        --data "$2" "$server$1"
}

# The first value of a field of an answer; ids hold no quotes.
field() { printf '%s' "$answer" | sed -n "s/.*\"runs\":\[{[^]]*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p"; }

nth=0
while :; do
    nth=$((nth + 1))
    answer=$(call /v1/worker/claim "{\"worker\":\"$worker\",\"claim_id\":\"$worker-$nth\",\"max\":1,\"wait_ms\":$wait}")
    case $answer in
        *'"drain":true'*) [ -n "$(field id)" ] || exit 0 ;;
        '') [ "$wait" != 0 ] || exit 0; continue ;;
        *'"code":'*) echo "claim refused: $answer" >&2; exit 1 ;;
    esac
    id=$(field id) task_id=$(field task_id)
    (while sleep 5; do
        call /v1/worker/heartbeat "{\"worker\":\"$worker\",\"runs\":[{\"id\":\"$id\",\"task_id\":\"$task_id\"}]}" >/dev/null
    done) &
    beats=$!
    if printf '%s' "$answer" | handle; then
        call "/v1/worker/runs/$id/complete" "{\"task_id\":\"$task_id\",\"verdict\":\"passed\"}" >/dev/null
    else
        call "/v1/worker/runs/$id/fail" \
            "{\"task_id\":\"$task_id\",\"error_class\":\"retryable\",\"message\":\"the handler ended with $?\"}" >/dev/null
    fi
    kill "$beats" 2>/dev/null || :
    wait "$beats" 2>/dev/null || :
done
