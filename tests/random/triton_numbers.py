"""What Triton's interpreter gives for seeds and ranges of offsets; prints JSON. Run with TRITON_INTERPRET=1."""

import json
import sys

import torch
import triton
import triton.language as tl


@triton.jit
def draw(out, bits, seed, first, size: tl.constexpr):
    lane = tl.arange(0, size)
    block = first + lane
    for word in tl.static_range(4):
        tl.store(out + 4 * lane + word, tl.rand4x(seed, block)[word])
        tl.store(bits + word * size + lane, tl.randint4x(seed, block)[word])


found = []
for seed, first, count in json.loads(sys.argv[1]):
    out, bits = torch.empty(4 * count), torch.empty(4, count, dtype=torch.int32)
    draw[(1,)](out, bits, seed, first, count)
    found.append((out.tolist(), (bits.long() & 0xFFFFFFFF).tolist()))
print(json.dumps(found))
