"""What Triton's interpreter gives for seeds and ranges of offsets; prints JSON. Run with TRITON_INTERPRET=1."""

import json
import sys

import torch
import triton
import triton.language as tl


@triton.jit
def draw(out, bits, normal, seed, first, size: tl.constexpr):
    lane = tl.arange(0, size)
    offset = first + lane
    tl.store(out + lane, tl.rand(seed, offset))
    a, b, c, d = tl.randint4x(seed, offset)
    tl.store(bits + lane, a)
    tl.store(bits + size + lane, b)
    tl.store(bits + 2 * size + lane, c)
    tl.store(bits + 3 * size + lane, d)
    tl.store(normal + lane, tl.randn(seed, offset))


found = []
for seed, first, count in json.loads(sys.argv[1]):
    out, normal = torch.empty(count), torch.empty(count)
    bits = torch.empty(4, count, dtype=torch.int32)
    draw[(1,)](out, bits, normal, seed, first, count)
    found.append((out.tolist(), (bits.long() & 0xFFFFFFFF).tolist(), normal.tolist()))
print(json.dumps(found))
