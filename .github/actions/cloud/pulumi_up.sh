#!/usr/bin/env bash
# Runs `pulumi up` of this stack with a refresh, for at most MINUTES. Writes its output to REPORT and to the run's summary, and the
# step's output `result`: finished, or interrupted by the time limit. Exits with an error if the update fails.
#
#   STACK_NAME=organization/vllm-fleet/dev MINUTES=330 [POLICY_CONFIG=FILE] .github/actions/cloud/pulumi_up.sh REPORT
set -euo pipefail

report=$1
mkdir -p "$(dirname "$report")"

arguments=(--stack "$STACK_NAME" --yes --refresh --diff --non-interactive --color never --message "${GITHUB_SHA:-}"
  --policy-pack policy)
if test -n "${POLICY_CONFIG:-}"; then arguments+=(--policy-pack-config "$POLICY_CONFIG"); fi

# On the first SIGTERM Pulumi stops waiting, writes the state and unlocks it; a second one terminates it. Hence --foreground: without
# it `timeout` also signals the process group, so Pulumi gets two. Source: pulumi, pkg/backend/cancellation_scope.go.
code=0
timeout --foreground --signal=TERM --kill-after=15m "${MINUTES}m" pulumi up "${arguments[@]}" 2>&1 | tee "$report" ||
  code=${PIPESTATUS[0]}

case "$code" in
  0) result=finished ;;
  124) result=interrupted ;; # by `timeout`; the cluster continues, and the next attempt waits for it
  137)
    result=failed
    echo "::error::Pulumi did not stop in time, so the state is locked. Run \`pulumi cancel --stack $STACK_NAME\`, then this workflow again."
    ;;
  *) result=failed ;;
esac

# GitHub drops a summary above 1 MiB; counts and errors are at the end.
{
  printf '### %s: %s\n\n<details><summary>pulumi up</summary>\n\n~~~~text\n' "$STACK_NAME" "$result"
  tail -c 500000 "$report"
  printf '\n~~~~\n\n</details>\n'
} >>"$GITHUB_STEP_SUMMARY"
echo "result=$result" >>"$GITHUB_OUTPUT"
test "$result" != failed
