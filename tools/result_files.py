# SPDX-License-Identifier: Apache-2.0
"""Files of bench/results: a text of more than MOST bytes is kept compressed, as NAME.xz. Everybody reads and writes
them here by NAME, whichever of the two is there. A plain file counts first: a run that appends to it is not over.
"""
import lzma
import pathlib

MOST = 100_000


def plain(path: pathlib.Path) -> pathlib.Path:
    """The name without .xz."""
    return path.with_name(path.name.removesuffix(".xz"))


def packed(path: pathlib.Path) -> pathlib.Path:
    return path.with_name(plain(path).name + ".xz")


def files(folder: pathlib.Path, pattern: str = "*") -> list[pathlib.Path]:
    """The names of the files that match, sorted; `pattern` is for the name without .xz, and may begin with **/."""
    found = {plain(path) for end in ("", ".xz") for path in folder.glob(pattern + end) if path.is_file()}
    return sorted(found)


def text_of(path: pathlib.Path) -> str | None:
    """None if there is no such file."""
    if plain(path).is_file():
        return plain(path).read_text()
    return lzma.decompress(packed(path).read_bytes()).decode() if packed(path).is_file() else None


def write(path: pathlib.Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    large = len(text.encode()) > MOST
    if large:
        scratch = path.with_name(path.name + ".tmp")
        scratch.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
        scratch.replace(packed(path))
    else:
        plain(path).write_text(text)
    (plain if large else packed)(path).unlink(missing_ok=True)


def unpack(path: pathlib.Path) -> None:
    """Makes the plain file, to which a run can append; pack() ends that."""
    if packed(path).is_file() and not plain(path).is_file():
        plain(path).write_text(text_of(path))


def pack(path: pathlib.Path) -> None:
    if plain(path).is_file():
        write(path, plain(path).read_text())
