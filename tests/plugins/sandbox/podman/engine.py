"""Podman as tests ask it, and images for it: a shell, and the Python that runs the tests."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

BUSYBOX = Path("/bin/busybox")
LEFT_OUT = {"__pycache__", "ensurepip", "idlelib", "site-packages", "test", "tkinter"}
RUNTIME = {"runtime": "runc"} if shutil.which("runc") or Path("/usr/sbin/runc").exists() else {}


def podman(*words: str, program: str = "podman") -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *words], capture_output=True, text=True, check=False)


def containers() -> list[str]:
    """Return the names of all containers of ours."""
    found = podman("ps", "--all", "--filter", "label=toolstile", "--format", "{{.Names}}")
    return found.stdout.split()


def _without_tests(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    parts = Path(member.name).parts
    return None if LEFT_OUT.intersection(parts) or member.name.endswith(".a") else member


def add_busybox(image: tarfile.TarFile) -> None:
    image.add(BUSYBOX, "bin/busybox")
    listed = subprocess.run([BUSYBOX, "--list"], capture_output=True, text=True, check=True)
    for name in listed.stdout.split():
        if name != "busybox":
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            image.addfile(link)


def add_python(image: tarfile.TarFile) -> None:
    program = Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}").resolve()
    image.add(program, str(program))
    library = Path(os.__file__).parent
    image.add(library, str(library), filter=_without_tests)
    linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    for word in linked.split():
        if word.startswith("/"):
            image.add(Path(word).resolve(), word)
    link = tarfile.TarInfo("bin/python3")
    link.type, link.linkname = tarfile.SYMTYPE, str(program)
    image.addfile(link)


def made_image(
    folder: Path, *parts: Callable[[tarfile.TarFile], None], program: str = "podman"
) -> Iterator[str]:
    if shutil.which(program) is None or not BUSYBOX.exists():
        pytest.skip(f"There is no {program}, or no busybox for an image.")
    archive = folder / "image.tar"
    with tarfile.open(archive, "w") as image:
        for part in parts:
            part(image)
    name = f"localhost/toolstile-test:{secrets.token_hex(4)}"
    made = podman("import", str(archive), name, program=program)
    archive.unlink()
    if made.returncode:
        pytest.skip(f"No image can be made: {made.stderr}")
    try:
        words = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096", name, "true"]
        runtime = [f"--runtime={RUNTIME['runtime']}"] if RUNTIME else []
        tried = podman("run", "--rm", "--network", "none", *runtime, *words, program=program)
        if tried.returncode:
            pytest.skip(f"No container can be started: {tried.stderr}")
        yield name
    finally:
        podman("rmi", "--force", name, program=program)
