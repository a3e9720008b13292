#!/usr/bin/env bash
# Exchanges this job's GitHub identity for a short-lived Pulumi Cloud token for later steps.
# BACKEND, ORGANIZATION, SECONDS_VALID: from the action. ACTIONS_ID_TOKEN_REQUEST_*: GitHub's, in jobs with `id-token: write`.
set -euo pipefail

audience="urn:pulumi:org:$ORGANIZATION"
identity=$(curl --silent --show-error --fail --get --data-urlencode "audience=$audience" \
  --header @<(printf 'Authorization: bearer %s\n' "$ACTIONS_ID_TOKEN_REQUEST_TOKEN") \
  "$ACTIONS_ID_TOKEN_REQUEST_URL" | jq --raw-output '.value')
echo "::add-mask::$identity"

# Tokens are passed on standard input: other processes can read arguments.
request() {
  IDENTITY=$identity jq --null-input --arg audience "$audience" --argjson expiration "$SECONDS_VALID" '{
    audience: $audience,
    grant_type: "urn:ietf:params:oauth:grant-type:token-exchange",
    subject_token_type: "urn:ietf:params:oauth:token-type:id_token",
    requested_token_type: "urn:pulumi:token-type:access_token:organization",
    $expiration,
    subject_token: env.IDENTITY
  }'
}
if ! token=$(request | curl --silent --show-error --fail --header 'Content-Type: application/json' --data @- \
  "$BACKEND/api/oauth/token" | jq --raw-output '.access_token // empty') || test -z "$token"; then
  echo "::error::$BACKEND returned no token. Check that GitHub is registered there as an OIDC issuer for this repository and environment."
  exit 1
fi
echo "::add-mask::$token"
echo "PULUMI_ACCESS_TOKEN=$token" >>"$GITHUB_ENV"
