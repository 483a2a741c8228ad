"""Makes the package's wheel, for pip (PEP 517), from the standard library alone.

liblaggard.so goes into it when it has been built or installed: LAGGARD_LIBRARY may name it. Without it the package
is installed all the same, and looks for the library when it is used.
"""

import base64
import hashlib
import os
import re
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

from laggard import _library

HERE = Path(__file__).resolve().parent
VERSION = re.search(r'^__version__ = "(.+)"$', (HERE / "laggard/__init__.py").read_text(), re.MULTILINE).group(1)
METADATA = f"""Metadata-Version: 2.1
Name: laggard
Version: {VERSION}
Summary: Hands the steps of a distributed training job over to a laggard collector
License: Apache-2.0
Requires-Python: >=3.9
"""
BUILDS = ("release", "dev")


def find_library():
    """The shared library to be put in, or None."""
    named = os.environ.get("LAGGARD_LIBRARY")
    built = [HERE.parents[1] / "build" / name / "lib" / _library.NAMES[0] for name in BUILDS]
    places = [Path(named)] if named else built + [Path(path) for path in _library.candidates()]
    return next((path for path in places if path.is_file()), None)


class Wheel:
    def __init__(self, directory, tag):
        self.name = f"laggard-{VERSION}-{tag}.whl"
        self._info = f"laggard-{VERSION}.dist-info"
        self._records = []
        self._archive = zipfile.ZipFile(Path(directory) / self.name, "w", zipfile.ZIP_DEFLATED)
        self._tag = tag

    def add(self, name, content):
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        self._records.append(f"{name},sha256={digest},{len(content)}")
        self._archive.writestr(name, content)

    def finish(self):
        purelib = str(self._tag.endswith("-any")).lower()
        about = f"Wheel-Version: 1.0\nGenerator: laggard\nRoot-Is-Purelib: {purelib}\nTag: {self._tag}\n"
        self.add(f"{self._info}/METADATA", METADATA.encode())
        self.add(f"{self._info}/WHEEL", about.encode())
        record = f"{self._info}/RECORD"
        self._archive.writestr(record, "\n".join([*self._records, f"{record},,", ""]))
        self._archive.close()
        return self.name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    library = find_library()
    if library is None:
        print("liblaggard.so is not built: the package will look for it when it is used", file=sys.stderr)
    platform = re.sub(r"[-.]", "_", sysconfig.get_platform()) if library else "any"
    wheel = Wheel(wheel_directory, f"py3-none-{platform}")
    for source in sorted((HERE / "laggard").glob("*.py")):
        wheel.add(f"laggard/{source.name}", source.read_bytes())
    if library:
        wheel.add(f"laggard/{_library.NAMES[0]}", library.read_bytes())
    return wheel.finish()


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    wheel = Wheel(wheel_directory, "py3-none-any")
    wheel.add("laggard.pth", f"{HERE}\n".encode())
    return wheel.finish()


def build_sdist(sdist_directory, config_settings=None):
    name = f"laggard-{VERSION}"
    with tarfile.open(Path(sdist_directory) / f"{name}.tar.gz", "w:gz") as archive:
        for source in ["pyproject.toml", "build_package.py", *sorted(p.name for p in (HERE / "laggard").glob("*.py"))]:
            path = HERE / source if (HERE / source).exists() else HERE / "laggard" / source
            archive.add(path, f"{name}/{path.relative_to(HERE)}")
    return f"{name}.tar.gz"
