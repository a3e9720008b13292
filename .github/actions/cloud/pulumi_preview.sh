#!/usr/bin/env bash
# Runs `pulumi preview` of this stack with a refresh. Writes its output to REPORT and to the run's summary, and the step's output
# `result`: unchanged, changed or failed. Exits with an error only for the last.
#
#   STACK_NAME=organization/vllm-fleet/dev [POLICY_CONFIG=FILE] .github/actions/cloud/pulumi_preview.sh REPORT
set -euo pipefail

report=$1
mkdir -p "$(dirname "$report")"

arguments=(--stack "$STACK_NAME" --refresh --expect-no-changes --diff --non-interactive --color never
  --policy-pack policy)
if test -n "${POLICY_CONFIG:-}"; then arguments+=(--policy-pack-config "$POLICY_CONFIG"); fi

if pulumi preview "${arguments[@]}" >"$report" 2>&1; then
  result=unchanged
elif grep --quiet 'no changes were expected' "$report"; then
  result=changed
else
  result=failed
fi
cat "$report"

# GitHub drops a summary above 1 MiB; counts and errors are at the end.
{
  printf '### %s: %s\n\n<details><summary>pulumi preview</summary>\n\n~~~~text\n' "$STACK_NAME" "$result"
  tail -c 500000 "$report"
  printf '\n~~~~\n\n</details>\n'
} >>"$GITHUB_STEP_SUMMARY"
echo "result=$result" >>"$GITHUB_OUTPUT"
test "$result" != failed
