"""The Java that runs Spark and the embedded Kafka: JAVA_HOME's, else the first on the PATH.

Raises `HardFailure` where there is none, or one that is too old.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from isthmus.errors import HardFailure

MINIMUM = 17  # what Spark 4 and Kafka 4 were compiled for

_REMEDY = f"Install Java {MINIMUM} or later and put it on the PATH, or point JAVA_HOME at it."


def java_command() -> Path:
    """The `java` to run, known to be recent enough."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(Path(home) / "bin" / "java") if home else shutil.which("java")
    if found is None:
        where = f"in JAVA_HOME ({home})" if home else "on the PATH"
        raise HardFailure(f"There is no java {where}.", remedy=_REMEDY)
    major = _major(java_version(Path(found)))
    if major < MINIMUM:
        raise HardFailure(f"{found} is Java {major}; Isthmus needs {MINIMUM} or later.", remedy=_REMEDY)
    return Path(found)


@cache
def java_version(command: Path) -> str:
    """What `java -version` says: enough to tell one Java from every other."""
    try:
        said = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise HardFailure(f"{command} does not run: {error}", remedy=_REMEDY) from error
    return said.stderr + said.stdout


def _major(version: str) -> int:
    """17 of `version "17.0.15"`, 21 of `version "21"`, 8 of `version "1.8.0_412"`."""
    number = re.search(r'version "(?:1\.)?(\d+)', version)
    if number is None:
        raise HardFailure(f"A java that does not say its version: {version.strip()}", remedy=_REMEDY)
    return int(number[1])
