"""Arrays in C order with .npy files, on the standard library alone."""

import array
import ast
import math
import random
import struct

CODES = {"<f4": "f", "<f8": "d", "<i4": "i"}


class Array:
    def __init__(self, shape, data, dtype="<f4"):
        self.shape, self.dtype = tuple(shape), dtype
        self.data = data if isinstance(data, array.array) else array.array(CODES[dtype], data)
        assert len(self.data) == math.prod(self.shape), (shape, len(self.data))

    @classmethod
    def of(cls, shape, value, dtype="<f4"):
        """Entries by a function of their index, or one value for all."""
        if not callable(value):
            return cls(shape, [value] * math.prod(shape), dtype)
        index, data = [0] * len(shape), []
        for _ in range(math.prod(shape)):
            data.append(value(*index))
            for d in reversed(range(len(shape))):
                index[d] += 1
                if index[d] < shape[d]:
                    break
                index[d] = 0
        return cls(shape, data, dtype)

    @classmethod
    def normal(cls, shape, seed, sigma=1.0):
        rng = random.Random(seed)
        return cls(shape, [rng.gauss(0, sigma) for _ in range(math.prod(shape))])

    def offset(self, index):
        at = 0
        for i, n in zip(index, self.shape):
            at = at * n + i
        return at * math.prod(self.shape[len(index):])

    def __getitem__(self, index):
        """The entry, or the entries of the part, at the leading indexes given."""
        index = index if isinstance(index, tuple) else (index,)
        at, size = self.offset(index), math.prod(self.shape[len(index):])
        return self.data[at] if len(index) == len(self.shape) else list(self.data[at:at + size])

    def with_entries(self, change):
        """A copy; `change(value, *index)` gives the new entries."""
        flat = iter(self.data)
        return Array.of(self.shape, lambda *i: change(next(flat), *i), self.dtype)

    def save(self, path, fortran=False):
        data = self.data
        if fortran:
            reverse = Array.of(self.shape[::-1], lambda *i: self[tuple(reversed(i))], self.dtype)
            data = reverse.data
        head = repr({"descr": self.dtype, "fortran_order": fortran, "shape": self.shape})
        head = head + " " * (-(len(head) + 11) % 64) + "\n"
        with open(path, "wb") as file:
            file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data.tobytes())

    @classmethod
    def load(cls, path):
        with open(path, "rb") as file:
            raw = file.read()
        size, start = (struct.unpack("<H", raw[8:10])[0], 10) if raw[6] == 1 else (struct.unpack("<I", raw[8:12])[0], 12)
        head = ast.literal_eval(raw[start:start + size].decode())
        assert not head["fortran_order"], path
        data = array.array(CODES[head["descr"]])
        data.frombytes(raw[start + size:])
        return cls(head["shape"], data, head["descr"])

    def same_bits(self, other):
        return self.shape == other.shape and self.data.tobytes() == other.data.tobytes()

    def finite(self):
        return all(map(math.isfinite, self.data))

    def distance(self, other):
        """The largest difference; infinite where one is NaN."""
        assert self.shape == other.shape, (self.shape, other.shape)
        worst = 0.0
        for a, b in zip(self.data, other.data):
            d = 0.0 if a == b else abs(a - b)
            worst = max(worst, d) if not math.isnan(d) else math.inf
        return worst
