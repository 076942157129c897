"""What did a program spend its instructions on? Reads callgrind's files: own cost by object, source file and function."""
import collections
import re

NAMED = re.compile(r"(c?(?:fn|fl|fi|fe|ob))=\((\d+)\)(?: (.*))?")
KINDS = {"fn": "fn", "cfn": "fn", "ob": "ob", "cob": "ob"}  # all others name files


class Profile:
    """`own[object, file, function]`: instructions, of inlined code by the file that it was written in; `calls[function]`."""

    def __init__(self, path):
        self.own, self.calls = collections.Counter(), collections.Counter()
        self.names = {}
        self.now = {"ob": "", "fl": "", "fn": "", "cfn": ""}
        self.called = False
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                self.take(line.rstrip("\n"))

    def take(self, line):
        named = NAMED.fullmatch(line)
        if named:
            self.set_name(*named.groups())
        elif line.startswith("calls="):
            self.calls[self.now["cfn"]] += int(line.split("=")[1].split()[0])
            self.called = True  # the next line has what the callee and those below it cost
        elif line[:1] in "0123456789+-*":
            words = line.split()
            if not self.called and len(words) > 1:
                self.own[self.now["ob"], self.now["fl"], self.now["fn"]] += int(words[-1])
            self.called = False

    def set_name(self, key, number, name):
        known = KINDS.get(key, "fl"), number
        if name is not None:
            self.names[known] = name
        self.now["fl" if key in ("fi", "fe") else key] = self.names[known]

    def minus(self, other):
        self.own.subtract(other.own)
        self.calls.subtract(other.calls)
        return self

    def calls_of(self, part_of_name):
        return sum(n for name, n in self.calls.items() if part_of_name in name)
