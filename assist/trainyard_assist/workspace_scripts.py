"""The shell scripts with which a pod unpacks a folder, installs its requirements and starts a command there.

Called by `workspace`, which writes them into a TrainJob, and by `run.interactive`,
for shells that are opened in such a pod later.
"""

from __future__ import annotations

from typing import Final

FOLDER: Final = "/trainyard/workspace"
"""Where the folder is in the pods, and where the command starts."""
PACKED: Final = "/trainyard/packed"
"""Where the pods have what holds the folder."""
ARCHIVE: Final = "workspace.tar.gz"

# Without the times and owners of the archive, which are none.
_UNPACK: Final = f"tar -xzmof {PACKED}/{ARCHIVE} -C {FOLDER}"
_OR_FAIL: Final = "|| { echo 'trainyard: the workspace could not be unpacked' >&2; exit 1; }"
_HERE: Final = f'{_UNPACK} {_OR_FAIL}\ncd {FOLDER}\nexec "$@"\n'
# Nobody can give the other nodes of an MPI job a command: the launcher reaches them as it will again.
_EVERYWHERE: Final = (
    f'{_UNPACK} {_OR_FAIL}\ncd {FOLDER}\nmpirun --map-by ppr:1:node sh -c "{_UNPACK}" {_OR_FAIL}\nexec "$@"\n'
)
WRAPPERS: Final = tuple(("sh", "-c", script, "trainyard") for script in (_HERE, _EVERYWHERE))
"""The command before a TrainJob's own command."""

_PACKAGES: Final = f"{FOLDER}/.trainyard-packages"
"""Where packages go for which the image has no place that its user may write to."""
_LOG: Final = f"{FOLDER}/.trainyard-pip.log"
"""Of pip, because what it prints has to be seen while it runs."""
# Without PYTHONPATH, which leads to the module that notes how a program of the user ended.
_PIP: Final = (
    "(unset PYTHONPATH; exec python3 -m pip install --no-input --disable-pip-version-check --no-cache-dir "
    f'--log {_LOG} -r "$1")'
)
_WHERE: Final = f"""\
export PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore
[ -w "${{HOME:-/}}" ] || export PYTHONUSERBASE={_PACKAGES}
export PATH="$PATH:${{PYTHONUSERBASE:-$HOME/.local}}/bin"
"""
# Exit code 42: a restart would not help.
_OR_SAY_WHY: Final = f"""\
|| {{
  if grep -qE 'connection broken by|Max retries exceeded' {_LOG} 2>/dev/null; then
    echo "trainyard: the requirements of $1 are not installed: this pod does not reach the package index of \
its pip configuration; name one that it reaches, as in --env PIP_INDEX_URL=https://..., or use an image that \
has them" >&2
    exit 1
  fi
  echo "trainyard: the requirements of $1 are not installed: pip says above why not" >&2
  exit 42
}}
"""
_INSTALL: Final = f'{_WHERE}{_PIP} {_OR_SAY_WHY}rm -f {_LOG}\nshift\nexec "$@"\n'
INSTALLER: Final = ("sh", "-c", _INSTALL, "trainyard")
"""What comes between a wrapper and a TrainJob's own command, with the name of the file."""
ENTER: Final = (
    f"cd {FOLDER} 2>/dev/null || :\n"
    f"[ ! -d {_PACKAGES} ] || export PYTHONUSERBASE={_PACKAGES}\n"
    'export PATH="$PATH:${PYTHONUSERBASE:-$HOME/.local}/bin"\n'
)
"""What a shell begins with that is opened later beside the command, where there is a folder."""
