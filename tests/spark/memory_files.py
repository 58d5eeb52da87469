"""Files of a checkpoint in memory, in place of Hadoop's file systems, which can be made to fail."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from rebalance_streaming.spark import hadoop_files
from rebalance_streaming.spark.hadoop_files import ListedFile


class JavaError(SimpleNamespace):
    """A Java exception with its stack trace, as Py4J passes it on."""

    _target_id = "o1"

    def __str__(self) -> str:
        return f"java.io.IOException: {self.text}\n\tat org.apache.hadoop.fs.Somewhere"


class MemoryFiles:
    """Content by path. While `failure` is not null, each call that `fails` names raises an error with this text.

    If `only` is not null, only the call with this number does, counted from 1.
    """

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self.failure: str | None = None
        self.fails = {"exists", "read", "write", "rename", "listed", "delete"}
        self.only: int | None = None
        self.calls = 0

    def exists(self, _spark: Any, file: str) -> bool:
        self._check("exists")
        return any(each == file or each.startswith(f"{file}/") for each in self.content)

    def read(self, _spark: Any, file: str) -> bytes:
        self._check("read")
        return self.content[file]

    def write(self, _spark: Any, file: str, content: bytes) -> None:
        self._check("write")
        self.content[file] = content

    def listed(self, _spark: Any, directory: str) -> list[ListedFile]:
        self._check("listed")
        below = {each.removeprefix(f"{directory}/"): value for each, value in self.content.items()}
        found = {name.partition("/")[0]: len(value) for name, value in below.items() if name not in self.content}
        return [ListedFile(name, size) for name, size in found.items()]

    def delete(self, _spark: Any, file: str) -> None:
        self._check("delete")
        del self.content[file]

    def rename(self, _spark: Any, directory: str, name: str) -> bool:
        self._check("rename")
        self.content = {
            f"{name}{file.removeprefix(directory)}" if file.startswith(f"{directory}/") else file: value
            for file, value in self.content.items()
        }
        return True

    def _check(self, call: str) -> None:
        self.calls += 1
        if self.failure is not None and call in self.fails and self.only in (None, self.calls):
            raise Py4JJavaError("An error occurred while calling o7.exists.\n", JavaError(text=self.failure))


def use_memory(monkeypatch: pytest.MonkeyPatch) -> MemoryFiles:
    """Let all modules use files in memory."""
    files = MemoryFiles()
    for name in ("exists", "read", "write", "listed", "delete", "rename"):
        monkeypatch.setattr(hadoop_files, name, getattr(files, name))
    return files
