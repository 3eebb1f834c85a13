"""Reads and writes safetensors files: 8 bytes of length, a header of JSON, the numbers."""

import json

import numpy

TYPES = {"F32": numpy.float32, "F64": numpy.float64, "I32": numpy.int32}


def read(path):
    """A dictionary of arrays, by name."""
    with open(path, "rb") as file:
        bytes_ = file.read()
    start = 8 + int.from_bytes(bytes_[:8], "little")
    arrays = {}
    for name, entry in json.loads(bytes_[8:start]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        numbers = numpy.frombuffer(bytes_[start + begin : start + end], TYPES[entry["dtype"]])
        arrays[name] = numbers.reshape(entry["shape"]).copy()
    return arrays


def write(path, arrays):
    """The widest type first, so that all numbers are aligned."""
    names = {type_: name for name, type_ in TYPES.items()}
    header, at = {}, 0
    ordered = sorted(arrays.items(), key=lambda item: -item[1].dtype.itemsize)
    for name, array in ordered:
        end = at + array.nbytes
        header[name] = {"dtype": names[array.dtype.type], "shape": list(array.shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 64 + 56)  # with the length before it, the numbers start at a multiple of 64
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, array in ordered:
            file.write(numpy.ascontiguousarray(array).tobytes())
