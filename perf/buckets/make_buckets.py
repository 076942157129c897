#!/usr/bin/env python3
"""Which gradient buckets does PyTorch's DistributedDataParallel all-reduce for a model? Writes the lists beside it.

    make_buckets.py            writes resnet50.txt and gpt2-small.txt into this folder
    make_buckets.py --check    compares them with what it would write; exit code 1 if they differ

The rule (DistributedDataParallel with its defaults, buckets as rebuilt after the first step): gradients become ready in
about the reverse order of the parameters' registration; they fill a bucket until it holds at least its limit, which is
1 MiB for the first bucket, so that communication starts early, and 25 MiB for all others. A parameter is never split,
so a bucket may exceed its limit. Parameters are float32. The shapes are the models' published ones:
ResNet-50 v1.5 as in torchvision (25,557,032 parameters), GPT-2 small with its output layer tied to the token
embedding (124,439,808 parameters).
"""
import math
import os
import sys

FIRST_LIMIT = 1 << 20
LIMIT = 25 << 20
FLOAT_BYTES = 4


def resnet50():
    """Shapes in registration order: stem, four stages of bottleneck blocks, classifier."""
    shapes = [(64, 3, 7, 7), (64,), (64,)]
    channels = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            out = 4 * width
            for conv in ((width, channels, 1, 1), (width, width, 3, 3), (out, width, 1, 1)):
                shapes += [conv, (conv[0],), (conv[0],)]  # convolution, then batch norm's weight and bias
            if block == 0:  # the projection of the shortcut
                shapes += [(out, channels, 1, 1), (out,), (out,)]
            channels = out
    return shapes + [(1000, 2048), (1000,)]


def gpt2_small(layers=12, width=768, vocabulary=50257, positions=1024):
    shapes = [(vocabulary, width), (positions, width)]
    for _ in range(layers):
        shapes += [(width,), (width,)]  # layer norm before attention
        shapes += [(width, 3 * width), (3 * width,), (width, width), (width,)]  # query, key, value; projection
        shapes += [(width,), (width,)]  # layer norm before the feed-forward part
        shapes += [(width, 4 * width), (4 * width,), (4 * width, width), (width,)]
    return shapes + [(width,), (width,)]


def buckets(shapes):
    sizes, current, limit = [], 0, FIRST_LIMIT
    for shape in reversed(shapes):
        current += math.prod(shape) * FLOAT_BYTES
        if current >= limit:
            sizes.append(current)
            current, limit = 0, LIMIT
    return sizes + ([current] if current else [])


def listing(name, shapes, parameters):
    total = sum(math.prod(s) for s in shapes)
    assert total == parameters, f"{name}: {total} parameters, expected {parameters}"
    sizes = buckets(shapes)
    assert sum(sizes) == total * FLOAT_BYTES
    head = (
        f"# {name}: gradient buckets in bytes, in the order in which they are all-reduced.\n"
        f"# {total:,} float32 parameters, {len(shapes)} tensors, {len(sizes)} buckets; made by make_buckets.py, which says how.\n"
    )
    return head + "".join(f"{size}\n" for size in sizes)


def main():
    folder = os.path.dirname(os.path.abspath(__file__))
    lists = {
        "resnet50.txt": listing("ResNet-50", resnet50(), 25_557_032),
        "gpt2-small.txt": listing("GPT-2 small", gpt2_small(), 124_439_808),
    }
    different = []
    for name, text in lists.items():
        path = os.path.join(folder, name)
        if "--check" not in sys.argv[1:]:
            with open(path, "w") as file:
                file.write(text)
        elif not os.path.exists(path) or open(path).read() != text:
            different.append(name)
    if different:
        sys.exit(f"not what make_buckets.py makes: {', '.join(different)}; run it again")


if __name__ == "__main__":
    main()
