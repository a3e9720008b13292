#!/bin/sh
# Writes one pinned revision of a model into a folder with Git LFS, verifies every file, and keeps no second copy: what vLLM
# never reads of the repository is not downloaded.
# Runs in the writer pod; a new pod after any failure continues where the last one stopped.
#
#   MODEL_ID       repository, e.g. Qwen/Qwen3.5-27B-FP8
#   REVISION       commit, 40 hexadecimal digits
#   REMOTE         host of the repository, e.g. https://huggingface.co
#   TARGET         the volume's folder; the model lands in $TARGET/$MODEL_ID
#   HF_TOKEN_PATH  file with a token for a gated model; optional
#   ATTEMPTS       downloads before giving up; optional, 20
#   PAUSE_SECONDS  between two attempts; optional, 15
#
# Exit 0: the revision is complete. 64: no repetition will help. Anything else: try again.
set -eu
umask 022
export LC_ALL=C

say() { printf '%s %s\n' "$(date -u +%H:%M:%SZ)" "$*"; }
give_up() {
  say "$*" >&2
  exit 64
}

: "${MODEL_ID:?}" "${REVISION:?}" "${REMOTE:?}" "${TARGET:?}"
attempts=${ATTEMPTS:-20}
pause=${PAUSE_SECONDS:-15}
model=$TARGET/$MODEL_ID
manifest=$TARGET/MANIFEST.sha256
stamp=$TARGET/REVISION

case $REVISION in
*[!0-9a-f]*) give_up "REVISION must be a commit of 40 hexadecimal digits, got $REVISION" ;;
esac
test "${#REVISION}" -eq 40 || give_up "REVISION must be a commit of 40 hexadecimal digits, got $REVISION"

finish() {
  # Objects and files are hard links to the same blocks, so this frees nothing but the pointers and the history.
  rm -rf "$model/.git"
  chmod -R a+rX "$model" "$manifest" "$stamp"
  # The image is taken from the disk, not from this node's memory.
  sync
  say "complete: $MODEL_ID at $REVISION, $(wc -l <"$manifest") files, $(du -sk "$model" | cut -f1) KiB"
  exit 0
}

if test -f "$stamp"; then
  test "$(cat "$stamp")" = "$MODEL_ID $REVISION" ||
    give_up "this volume already holds $(cat "$stamp"); another revision belongs on a volume of its own"
  finish
fi

# Git asks nobody, reads no configuration but this repository's, and leaves pointers alone until they are verified.
export GIT_TERMINAL_PROMPT=0 GIT_LFS_SKIP_SMUDGE=1 GIT_CONFIG_NOSYSTEM=1 GIT_CEILING_DIRECTORIES="$TARGET"
mkdir -p "$model"
cd "$model"
git -c init.defaultBranch=main init -q .
rm -f .git/*.lock
git config core.quotePath false
# Plain HTTP transfers: other transfer agents (Xet above all) stall at 16 to 20 GB.
git config lfs.basicTransfersOnly true
git config lfs.concurrentTransfers 8
git config lfs.activityTimeout 60
git config lfs.transfer.maxRetries 10
if test -n "${HF_TOKEN_PATH:-}"; then
  test -s "$HF_TOKEN_PATH" || give_up "the token file $HF_TOKEN_PATH is missing or empty"
  # The token goes from the file to Git through a pipe: never into arguments, environment, configuration or log.
  # shellcheck disable=SC2016 # expanded when Git asks, not here
  git config "credential.$REMOTE.helper" \
    '!f() { if test "$1" = get; then printf "username=token\npassword=%s\n" "$(tr -d "\r\n" <"$HF_TOKEN_PATH")"; fi; }; f'
fi
git remote remove origin 2>/dev/null || true
git remote add origin "$REMOTE/$MODEL_ID"

# The pinned commit alone; a server that does not hand out single commits gives all branches instead.
fetch_commit() {
  git fetch -q --depth 1 origin "$REVISION" && return
  say "the server does not hand out the commit by itself; fetching every branch"
  git fetch -q origin '+refs/heads/*:refs/remotes/origin/*'
}

has_commit() { git cat-file -e "$REVISION^{commit}" 2>/dev/null; }

attempt=1
until has_commit; do
  if fetch_commit; then
    has_commit || give_up "$MODEL_ID has no commit $REVISION on any branch"
  elif test "$attempt" -ge "$attempts"; then
    say "no answer from $REMOTE for $MODEL_ID after $attempts attempts; a gated or private model needs a token" >&2
    exit 1
  else
    attempt=$((attempt + 1))
    sleep "$pause"
  fi
done
git checkout -q --force --detach "$REVISION"

# Files that vLLM never reads: copies of the weights in other formats, and states of a training run.
# Source: vLLM 0.18.1 and 0.33.0, model_loader/default_loader.py (the first of consolidated*.safetensors, *.safetensors, *.bin and
# *.pt), weight_utils.py (the files of model.safetensors.index.json; blacklist), config/load.py (without original/).
# .pt files and other folders stay: vLLM reads parts of some models there (BGE-M3, Kimi-Audio).
weight_map=model.safetensors.index.json
git ls-files >.git/repository-paths
has() { grep -q "$1" .git/repository-paths; }
is_unread() {
  case $1 in
  original/* | onnx/* | *.gguf | *.pth | *.h5 | *.msgpack | *.ot) ;;
  training_args.bin | optimizer.bin | optimizer.pt | scheduler.pt | scaler.pt) ;;
  *.bin) has '^[^/]*\.safetensors$' ;;
  */*) false ;;
  # The index would make vLLM look for shards that are not here.
  model*.safetensors | "$weight_map")
    has '^consolidated[^/]*\.safetensors$' && return
    test "$1" != "$weight_map" && grep -qs '"weight_map"' $weight_map && ! grep -qF "\"$1\"" $weight_map
    ;;
  *) false ;;
  esac
}
while read -r path; do
  if is_unread "$path"; then printf '%s\n' "$path"; fi
done <.git/repository-paths >.git/unread-paths
while read -r path; do
  say "not downloaded, because vLLM does not read it: $path"
  git rm -q --force -- ":(literal)$path"
done <.git/unread-paths
served=$(git -c user.name=writer -c user.email=writer@localhost commit-tree -m served "$(git write-tree)")

# One line for each large file: sha256, size, path. The name of an LFS object is its sha256.
objects=.git/objects-wanted
git lfs ls-files --long "$served" >.git/lfs-files
while read -r oid _ path; do
  size=$(git cat-file blob "$served:$path" | sed -n 's/^size //p')
  printf '%s %s %s\n' "$oid" "${size:?}" "$path"
done <.git/lfs-files >$objects
test -s $objects || give_up "$MODEL_ID at $REVISION has no file in Git LFS that vLLM reads: there are no weights to serve"

object_of() { printf '.git/lfs/objects/%s/%s/%s' "$(printf %.2s "$1")" "$(printf %.4s "$1" | cut -c3-4)" "$1"; }
size_of() { if test -f "$1"; then wc -c <"$1" | tr -d ' '; else echo 0; fi; }

# Bytes still to come, by size; what an interrupted transfer left counts as nothing.
missing_bytes() {
  total=0
  while read -r oid size _; do
    test "$(size_of "$(object_of "$oid")")" = "$size" || total=$((total + size))
  done <$objects
  echo "$total"
}

missing=$(missing_bytes)
free=$(($(df -Pk "$TARGET" | awk 'NR == 2 { print $4 }') * 1024))
test "$missing" -le "$free" ||
  give_up "$missing bytes to download and $free free on the volume: raise weights.sizeGib"

attempt=1
while :; do
  say "attempt $attempt of $attempts: $(missing_bytes) bytes to come"
  if git lfs fetch origin "$served" && test "$(missing_bytes)" -eq 0 && git lfs fsck --objects "$served"; then
    break
  fi
  # What does not hash to its name was moved here by the check; it is downloaded again.
  rm -rf .git/lfs/bad
  if test "$attempt" -ge "$attempts"; then
    say "still incomplete after $attempts attempts; a new pod goes on from here" >&2
    exit 1
  fi
  attempt=$((attempt + 1))
  sleep "$pause"
done

# Every file is whole and verified: put each object in its pointer's place, and write down what the volume holds.
while read -r oid _ path; do
  ln -f "$(object_of "$oid")" "$path"
done <$objects
# No pipelines here: a shell without pipefail would take half a manifest for a whole one.
git ls-files >.git/all-paths
sort -o .git/all-paths .git/all-paths
cut -d' ' -f3- $objects >.git/large-paths
sort -o .git/large-paths .git/large-paths
comm -23 .git/all-paths .git/large-paths >.git/small-paths
while read -r oid _ path; do
  printf '%s  %s\n' "$oid" "$path"
done <$objects >"$manifest.new"
while read -r path; do
  sha256sum "$path"
done <.git/small-paths >>"$manifest.new"
sort -k2 -o "$manifest.new" "$manifest.new"
mv "$manifest.new" "$manifest"
sync
printf '%s %s\n' "$MODEL_ID" "$REVISION" >"$stamp.new"
mv "$stamp.new" "$stamp"
finish
