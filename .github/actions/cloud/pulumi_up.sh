#!/usr/bin/env bash
# `pulumi up` of this stack, refreshed first, for MINUTES at most. Writes what it says to the file REPORT and to the run's summary, and
# the step's output `result`: finished, or interrupted where time ran out. Fails where the update fails.
#
#   STACK_NAME=organization/vllm-fleet/dev MINUTES=330 [POLICY_CONFIG=FILE] .github/actions/cloud/pulumi_up.sh REPORT
set -euo pipefail

report=$1
mkdir -p "$(dirname "$report")"

arguments=(--stack "$STACK_NAME" --yes --refresh --diff --non-interactive --color never --message "${GITHUB_SHA:-}"
  --policy-pack policy)
if test -n "${POLICY_CONFIG:-}"; then arguments+=(--policy-pack-config "$POLICY_CONFIG"); fi

# One SIGTERM lets Pulumi end its waits, write the state and unlock it; a second would end it at once. Hence --foreground: without it
# `timeout` signals its process group, too, and Pulumi hears both. Source: pulumi, pkg/backend/cancellation_scope.go.
code=0
timeout --foreground --signal=TERM --kill-after=15m "${MINUTES}m" pulumi up "${arguments[@]}" 2>&1 | tee "$report" ||
  code=${PIPESTATUS[0]}

case "$code" in
  0) result=finished ;;
  124) result=interrupted ;; # by `timeout`; what had begun goes on in the cluster, and the next attempt waits for it
  137)
    result=failed
    echo "::error::Pulumi did not end when asked to, so the state is locked: run \`pulumi cancel --stack $STACK_NAME\`, then this again."
    ;;
  *) result=failed ;;
esac

# GitHub drops a summary of more than 1 MiB as a whole; the counts and the error come last.
{
  printf '### %s: %s\n\n<details><summary>pulumi up</summary>\n\n~~~~text\n' "$STACK_NAME" "$result"
  tail -c 500000 "$report"
  printf '\n~~~~\n\n</details>\n'
} >>"$GITHUB_STEP_SUMMARY"
echo "result=$result" >>"$GITHUB_OUTPUT"
test "$result" != failed
