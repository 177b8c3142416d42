"""A TrainJob that waits for its user, who has a shell in it: its command, and that of the shell.

Called by `trainyard run --interactive`. The job ends by itself after its time, and
on one node also when nobody uses it, so what nobody ends does not hold quota for
ever. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from trainyard_api import durations

from ..workspace_scripts import ENTER

NAME: Final = "shell"
"""How a generated name begins."""
LIMIT: Final = "8h"
"""How long such a job may run, unless its user says something else: a day's work."""
IDLE: Final = "2h"
"""How long nobody may use it, unless its user says something else."""
READY: Final = "trainyard: ready"
"""The line that each node prints once its folder and its requirements are there."""

# As process 1, it has to ask for the signal by which pods are ended.
_WAIT: Final = f"""\
trap 'exit 143' TERM
echo '{READY}'
sleep "$1" & wait $!
echo 'trainyard: its time is over'
"""
# Used is a node whose processes take more than 1 % of a processor, or on one of whose terminals
# something was typed or printed. A process that `exec` started and that has ended takes its time
# with it, so less than before is use too. The times of a process follow its name in parentheses.
_WAIT_WHILE_USED: Final = f"""\
trap 'exit 143' TERM
echo '{READY}'
look() {{
  ticks=0 typed=$(stat -c %Y /dev/pts/[0-9]* 2>/dev/null)
  for process in /proc/[0-9]*/stat; do
    {{ read -r line < "$process"; }} 2>/dev/null || continue
    set -- ${{line##*) }}
    ticks=$((ticks + ${{12}} + ${{13}} + ${{14}} + ${{15}}))
  done
}}
left=$1 unused=0
look
while [ "$left" -gt 0 ] && [ "$unused" -lt "$2" ]; do
  pause=$((left < $3 ? left : $3)) ticks_before=$ticks typed_before=$typed
  sleep "$pause" & wait $!
  left=$((left - pause)) unused=$((unused + pause))
  look
  spent=$((ticks - ticks_before))
  [ "$typed" = "$typed_before" ] && [ "${{spent#-}}" -le $((2 + pause)) ] || unused=0
done
if [ "$left" -gt 0 ]; then echo "trainyard: nobody has used it for $4"
else echo 'trainyard: its time is over'; fi
"""
_LONGEST_PAUSE: Final = 60
"""Seconds between two looks at whether a node is used."""
_SHELL: Final = f"{ENTER}command -v bash >/dev/null 2>&1 && exec bash\nexec sh\n"
_PROGRAM: Final = f'{ENTER}exec "$@"\n'


@dataclass(frozen=True, slots=True)
class Waiting:
    """How long a TrainJob waits for its user."""

    seconds: float = durations.seconds(LIMIT)
    idle: float = durations.seconds(IDLE)
    """Seconds without use after which it ends; 0: it never ends for that."""
    keep: bool = False
    """Whether it continues after the shell."""

    def command(self, nodes: int) -> tuple[str, ...]:
        """What runs on each node until the time is over, and then is complete.

        No node knows whether another is used, so with several of them only the time counts.
        """
        if not self._ends_unused(nodes):
            return ("sh", "-c", _WAIT, "trainyard", f"{self.seconds:.0f}")
        pause = max(1, min(_LONGEST_PAUSE, int(self.idle / 10)))
        times = (f"{self.seconds:.0f}", f"{self.idle:.0f}", str(pause), durations.words(self.idle))
        return ("sh", "-c", _WAIT_WHILE_USED, "trainyard", *times)

    def sentence(self, nodes: int) -> str:
        """What the plan says of it."""
        ends = [] if self.keep else ["with it"]
        ends += [f"after {durations.words(self.idle)} without use"] if self._ends_unused(nodes) else []
        ends += [f"after {durations.words(self.seconds)} (--time-limit)"]
        *most, last = ends
        together = f"; what the {nodes} nodes do together has to be started on each" if nodes > 1 else ""
        return f"in rank 0; the job ends {', '.join(most)}{', or ' if most else ''}{last}{together}"

    def _ends_unused(self, nodes: int) -> bool:
        return nodes == 1 and 0 < self.idle < self.seconds


def shell(words: Sequence[str]) -> tuple[str, ...]:
    """What runs in the first rank, in the folder that travels with the job if there is one.

    Args:
        words: A command; none for a shell.
    """
    return ("sh", "-c", _PROGRAM, "trainyard", *words) if words else ("sh", "-c", _SHELL)
