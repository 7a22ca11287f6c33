#!/usr/bin/env python3
"""A worker for Redrive in Python, with the standard library alone.

    python3 worker.py http://127.0.0.1:7117 [CATEGORY…]        (REDRIVE_TOKEN for a server that asks for one)

It claims one run at a time, beats while it works, and reports. Every call may be sent again: a claim by its claim_id, a report by its
task_id. So a lost answer costs nothing. Put your work into `handle`. With --once it ends when nothing is queued.
"""
import json, os, sys, threading, time, traceback, urllib.error, urllib.request, uuid

SERVER, *CATEGORIES = [word for word in sys.argv[1:] if word != "--once"]
ONCE, NAME = "--once" in sys.argv, f"{os.uname().nodename}-{os.getpid()}"


class Stop(Exception):
    """The run is cancelled, or no longer this worker's."""


def handle(run, check):
    """Does the work: returns a verdict and metrics. `check()` raises Stop when the work is to be dropped."""
    check()
    print("handling", run["id"], run["category"], run["payload"], flush=True)
    if isinstance(run["payload"], dict) and run["payload"].get("fail"):
        raise ValueError(run["payload"]["fail"])
    return "passed", {"bytes": len(json.dumps(run["payload"]))}


def call(path, body, tries=60):
    """Posts until there is an answer. Every call of a worker may be repeated."""
    headers = {"Content-Type": "application/json"}
    if os.environ.get("REDRIVE_TOKEN"):
        headers["Authorization"] = "Bearer " + os.environ["REDRIVE_TOKEN"]
    for _ in range(tries):
        request = urllib.request.Request(SERVER.rstrip("/") + path, json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=70) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            if error.code < 500 and error.code != 429:
                return error.code, json.loads(error.read() or b"null")
        except OSError as error:
            print("no answer:", error, file=sys.stderr)
        time.sleep(1)
    sys.exit("the server does not answer")


def work(run):
    held, dropped, path = {"id": run["id"], "task_id": run["task_id"]}, threading.Event(), f"/v1/worker/runs/{run['id']}/"

    def beat(over):
        while not over.wait(run["beat_ms"] / 1000):
            answer = call("/v1/worker/heartbeat", {"worker": NAME, "runs": [held]})[1]
            if answer["runs"][0]["say"] != "ok":
                return dropped.set()

    def check():
        if dropped.is_set():
            raise Stop

    over = threading.Event()
    threading.Thread(target=beat, args=[over], daemon=True).start()
    try:
        verdict, metrics = handle(run, check)
        call(path + "complete", {"task_id": run["task_id"], "verdict": verdict, "metrics": metrics})
    except Stop:
        pass  # Another attempt counts; whatever is reported now would be refused.
    except Exception as error:
        call(path + "fail", {"task_id": run["task_id"], "error_class": "retryable",
                             "message": str(error), "traceback": traceback.format_exc()})
    finally:
        over.set()


while True:
    claim = {"worker": NAME, "claim_id": str(uuid.uuid4()), "max": 1, "wait_ms": 0 if ONCE else 30000}
    status, answer = call("/v1/worker/claim", claim | ({"categories": CATEGORIES} if CATEGORIES else {}))
    if status >= 400:
        sys.exit(f"claim refused: {answer}")
    for run in (answer or {}).get("runs", []):
        work(run)
    if (answer or {}).get("drain") or (ONCE and not answer):
        break
