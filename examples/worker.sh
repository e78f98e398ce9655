#!/bin/sh
# A worker in sh and curl: HEADWAY_KEY=hw_… sh worker.sh mail ./send-mail
# Runs the command for each job of the queue, with the payload on its standard input. Its standard output is the result,
# as JSON; if it fails, the last line of its standard error is the reason.
set -u
api=${HEADWAY_API:-http://127.0.0.1:8420}/api/v1/worker queue=$1 command=$2
worker=$(cat /proc/sys/kernel/random/uuid)

ask() { # path, body: prints the answer; gives 0 for 200, 1 for a refusal, 2 while the server is away
  said=$(curl --silent --show-error --max-time 40 --write-out '\n%{http_code}' \
    --header "Authorization: Bearer $HEADWAY_KEY" --json "$2" "$api/$1") || return 2
  printf '%s\n' "$said" | sed '$d'
  case $(printf '%s\n' "$said" | tail -n 1) in 200) ;; 429 | 5??) return 2 ;; *) return 1 ;; esac
}
tell() { # the same, again and again while the server is away
  until ask "$1" "$2"; do [ $? = 2 ] || return 1; sleep 1; done
}
part() { # what is between two texts of the claim's answer; the order of its fields is fixed
  printf '%s\n' "$job" | sed -n "s/^{\"jobs\":\[{$1\(.*\)$2.*/\1/p"
}

while :; do
  claim=$(cat /proc/sys/kernel/random/uuid)
  until job=$(ask jobs/claim '{"worker_id":"'$worker'","claim_id":"'$claim'","queues":["'$queue'"],"wait":30}'); do
    sleep 1 # the same claim again: what it brought the first time is not lost
  done
  id=$(part '"id":"' '","fence":[0-9]*,"attempt_no"')
  [ -n "$id" ] || continue
  me="\"worker_id\":\"$worker\",$(part '"id":"[^"]*",' ',"attempt_no":[0-9]*,"tenant_id"')"
  part '[^{]*"payload":' ',"tries":[0-9]*,"losses":[0-9]*,"max_attempts".*' | $command > result.$$ 2> errors.$$ & running=$!
  : > beat.$$
  ( while sleep "${HEADWAY_BEAT:-20}"; do tell "jobs/$id/heartbeat" "{$me}" > beat.$$ || break
    grep -q '"cancel_requested":true' beat.$$ && break; done; kill $running 2> kill.$$ ) & beats=$!
  if wait $running; then
    tell "jobs/$id/complete" "{$me,\"result\":$(cat result.$$)}" ||
      tell "jobs/$id/fail" "{$me,\"error\":\"its result was refused: is its output JSON?\"}"
  elif grep -q '"cancel_requested":true' beat.$$; then
    tell "jobs/$id/fail" "{$me,\"status\":\"canceled\"}"
  else
    tell "jobs/$id/fail" "{$me,\"error\":\"$(tail -n 1 errors.$$ | tr -d '"\\\000-\037')\"}"
  fi || echo "not this worker's job any more: $id" >&2
  kill $beats 2> kill.$$
done
