#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Hone authors
# SPDX-License-Identifier: Apache-2.0
"""Every operator of the graph executor against ai-edge-litert, on small random graphs of one operator.

Usage: executor_ops.py [--tool BUILD/src/executor/run_tflite] [--seed N] [--rounds N] [--keep FOLDER]
"""
import argparse
import pathlib
import subprocess
import tempfile

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from hone_cli import Checks

ROOT = pathlib.Path(__file__).resolve().parents[2]
TYPES = {np.dtype(np.float32): 0, np.dtype(np.float16): 1, np.dtype(np.int32): 2, np.dtype(np.int64): 4,
         np.dtype(np.bool_): 6, np.dtype(np.int8): 9}
INT4 = 17


class Const:
    """An operand that lies in the file. bits 4: values from -8 to 7, packed. scales: per row; or [rows, blocks]."""

    def __init__(self, values, scales=None, bits=None):
        self.values, self.scales, self.bits = np.asarray(values), scales, bits


def pack4(codes):
    flat = codes.reshape(-1).astype(np.int64) & 15
    flat = np.concatenate([flat, np.zeros(len(flat) % 2, np.int64)])
    return (flat[0::2] | (flat[1::2] << 4)).astype(np.uint8)


class Graph:
    """A model of one operator with the signature "main"."""

    def __init__(self, op, operands, outputs, options=None):
        self.model = schema.ModelT()
        self.model.version = 3
        self.model.buffers = [schema.BufferT()]
        code = schema.OperatorCodeT()
        code.builtinCode = getattr(schema.BuiltinOperator, op)
        code.deprecatedBuiltinCode = min(code.builtinCode, 127)
        code.version = {"FULLY_CONNECTED": 12, "EMBEDDING_LOOKUP": 4, "BROADCAST_TO": 2}.get(op, 1)
        self.model.operatorCodes = [code]
        self.graph = schema.SubGraphT()
        self.graph.name, self.graph.tensors, self.graph.inputs = "main", [], []
        self.feeds = {}
        node = schema.OperatorT()
        node.inputs = [self.operand(o) for o in operands]
        node.outputs = [self.tensor(shape, TYPES[np.dtype(dtype)]) for shape, dtype in outputs]
        if options is not None:
            node.builtinOptions = options
            node.builtinOptionsType = getattr(schema.BuiltinOptions, type(options).__name__[:-1])
        self.graph.operators, self.graph.outputs = [node], node.outputs
        self.model.subgraphs = [self.graph]
        signature = schema.SignatureDefT()
        signature.signatureKey, signature.subgraphIndex = "main", 0
        signature.inputs = [self.entry(f"i{i}", t) for i, t in enumerate(self.graph.inputs)]
        signature.outputs = [self.entry(f"o{i}", t) for i, t in enumerate(node.outputs)]
        self.model.signatureDefs = [signature]

    @staticmethod
    def entry(name, tensor):
        entry = schema.TensorMapT()
        entry.name, entry.tensorIndex = name, tensor
        return entry

    def tensor(self, shape, kind):
        tensor = schema.TensorT()
        tensor.shape, tensor.type, tensor.buffer, tensor.hasRank = [int(d) for d in shape], kind, 0, True
        tensor.name = f"t{len(self.graph.tensors)}"
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def constant(self, values, kind, shape):
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(np.ascontiguousarray(values).tobytes(), np.uint8)
        self.model.buffers.append(buffer)
        index = self.tensor(shape, kind)
        self.graph.tensors[index].buffer = len(self.model.buffers) - 1
        return index

    def operand(self, operand):
        if operand is None:
            return -1
        if not isinstance(operand, Const):
            operand = np.asarray(operand)
            index = self.tensor(operand.shape, TYPES[operand.dtype])
            self.feeds[f"i{len(self.graph.inputs)}"] = operand
            self.graph.inputs.append(index)
            return index
        values = operand.values
        kind, data = (INT4, pack4(values)) if operand.bits == 4 else (TYPES[values.dtype], values)
        index = self.constant(data, kind, values.shape)
        if operand.scales is not None:
            scales = np.asarray(operand.scales)
            q = schema.QuantizationParametersT()
            if scales.ndim == 2:
                block = schema.BlockwiseQuantizationT()
                block.scales = self.constant(scales.astype(np.float16), 1, scales.shape)
                block.zeroPoints, block.blockSize = -1, values.shape[1] // scales.shape[1]
                q.details, q.detailsType = block, schema.QuantizationDetails.BlockwiseQuantization
            else:
                q.scale, q.zeroPoint = scales.astype(np.float32), np.zeros(len(scales), np.int64)
            q.quantizedDimension = 0
            self.graph.tensors[index].quantization = q
        return index

    def bytes(self):
        b = flatbuffers.Builder(1024)
        b.Finish(self.model.Pack(b), b"TFL3")
        return bytes(b.Output())


def options(kind, **fields):
    out = getattr(schema, kind + "T")()
    for name, value in fields.items():
        setattr(out, name, value)
    return out


def i32(*values):
    return Const(np.array(values, np.int32))


def scalar(value, dtype=np.int32):
    return Const(np.array(value, dtype))


class Cases:
    """(operator, operands, output types, options)"""

    def __init__(self, rng):
        self.rng = rng

    def block_scales(self, rows, blocks):
        """Bfloat16 numbers, as Google's quantizer writes them: XNNPACK packs no finer ones."""
        bits = self.floats(rows, blocks, low=0.01, high=0.1).view(np.uint32) & np.uint32(0xFFFF0000)
        return bits.view(np.float32)

    def floats(self, *shape, low=-3.0, high=3.0):
        return self.rng.uniform(low, high, shape).astype(np.float32)

    def ints(self, *shape, low=-50, high=50, dtype=np.int32):
        return self.rng.integers(low, high, shape).astype(dtype)

    def bools(self, *shape):
        return self.rng.integers(0, 2, shape).astype(np.bool_)

    def dims(self, rank):
        return [int(d) for d in self.rng.integers(1, 5, rank)]

    def pair(self, maker):
        """Two operands that broadcast."""
        shape = self.dims(int(self.rng.integers(1, 5)))
        other = [d if self.rng.random() < 0.6 else 1 for d in shape][int(self.rng.integers(0, len(shape))):]
        pair = [maker(*shape), maker(*other)]
        return pair if self.rng.random() < 0.5 else pair[::-1]

    def elementwise(self):
        f = np.float32
        for op in ("EXP", "SIN", "COS", "TANH", "LOGISTIC", "RELU", "RELU6", "NEG", "ABS", "FLOOR", "CEIL", "ROUND"):
            yield op, [self.floats(*self.dims(3))], [f], None
        for op in ("LOG", "SQRT", "RSQRT"):
            yield op, [self.floats(*self.dims(3), low=0.1)], [f], None
        yield "SQUARE", [self.floats(*self.dims(3))], [f], options("SquareOptions")
        for approximate in (False, True):
            yield "GELU", [self.floats(*self.dims(3))], [f], options("GeluOptions", approximate=approximate)
        for op, kind in (("ADD", "AddOptions"), ("SUB", "SubOptions"), ("MUL", "MulOptions"), ("DIV", "DivOptions")):
            for activation in (0, 1, 3):
                yield op, self.pair(self.floats), [f], options(kind, fusedActivationFunction=activation)
            if op != "DIV":
                yield op, self.pair(self.ints), [np.int32], options(kind)
            else:
                yield op, [self.ints(4, 3), self.ints(4, 3, low=1)], [np.int32], options(kind)
        for op in ("MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE"):
            kind = "SquaredDifferenceOptions" if op[0] == "S" else "MaximumMinimumOptions"
            yield op, self.pair(self.floats), [f], options(kind)
            yield op, self.pair(self.ints), [np.int32], options(kind)
        yield "POW", [self.floats(2, 3, low=0.1), self.floats(2, 3)], [f], options("PowOptions")
        yield "POW", [self.ints(2, 3, low=-3, high=4), self.ints(2, 3, low=0, high=4)], [np.int32], options("PowOptions")
        for op, kind in (("FLOOR_DIV", "FloorDivOptions"), ("FLOOR_MOD", "FloorModOptions")):
            yield op, [self.floats(2, 3), self.floats(2, 3, low=0.5)], [f], options(kind)
            yield op, [self.ints(2, 3), self.ints(2, 3, low=1, high=9)], [np.int32], options(kind)

    def logic(self):
        for op, kind in (("EQUAL", "EqualOptions"), ("NOT_EQUAL", "NotEqualOptions"), ("LESS", "LessOptions"),
                         ("LESS_EQUAL", "LessEqualOptions"), ("GREATER", "GreaterOptions"),
                         ("GREATER_EQUAL", "GreaterEqualOptions")):
            yield op, self.pair(self.floats), [np.bool_], options(kind)
            yield op, self.pair(lambda *s: self.ints(*s, low=0, high=3)), [np.bool_], options(kind)
        yield "LOGICAL_AND", self.pair(self.bools), [np.bool_], options("LogicalAndOptions")
        yield "LOGICAL_OR", self.pair(self.bools), [np.bool_], options("LogicalOrOptions")
        yield "LOGICAL_NOT", [self.bools(3, 2)], [np.bool_], options("LogicalNotOptions")
        shape = self.dims(3)
        yield "SELECT", [self.bools(*shape), self.floats(*shape), self.floats(*shape)], [np.float32], options(
            "SelectOptions")
        yield "SELECT", [self.bools(shape[0]), self.floats(*shape), self.floats(*shape)], [np.float32], options(
            "SelectOptions")
        yield "SELECT_V2", [self.bools(*shape[1:]), self.floats(*shape), self.floats(1)], [np.float32], options(
            "SelectV2Options")
        yield "SELECT_V2", [self.bools(*shape), self.ints(1), self.ints(*shape[2:])], [np.int32], options(
            "SelectV2Options")

    def casts(self):
        makers = {np.float32: self.floats, np.int32: self.ints, np.bool_: self.bools,
                  np.int64: lambda *s: self.ints(*s, dtype=np.int64),
                  np.float16: lambda *s: self.floats(*s).astype(np.float16)}
        for source, maker in makers.items():
            for target in makers:
                yield "CAST", [maker(3, 4)], [target], options(
                    "CastOptions", inDataType=TYPES[np.dtype(source)], outDataType=TYPES[np.dtype(target)])
        yield "DEQUANTIZE", [Const(self.floats(3, 2).astype(np.float16))], [np.float32], options("DequantizeOptions")
        yield "DEQUANTIZE", [Const(self.ints(3, 4, low=-127, high=128, dtype=np.int8),
                                   self.floats(3, low=0.01, high=0.1))], [np.float32], options("DequantizeOptions")

    def linear(self):
        f = np.float32
        for keep in (False, True):
            for activation in (0, 1):
                o = options("FullyConnectedOptions", keepNumDims=keep, fusedActivationFunction=activation)
                bias = Const(self.floats(5)) if activation else None
                yield "FULLY_CONNECTED", [self.floats(2, 3, 64), Const(self.floats(5, 64)), bias], [f], o
                yield "FULLY_CONNECTED", [self.floats(2, 3, 64),
                                          Const(self.ints(5, 64, low=-127, high=128, dtype=np.int8),
                                                self.floats(5, low=0.01, high=0.1)), bias], [f], o
                yield "FULLY_CONNECTED", [self.floats(2, 3, 64),
                                          Const(self.ints(5, 64, low=-8, high=8), self.floats(5, low=0.01, high=0.1),
                                                bits=4), bias], [f], o
                yield "FULLY_CONNECTED", [self.floats(2, 3, 64),
                                          Const(self.ints(6, 64, low=-8, high=8),
                                                self.block_scales(6, 2), bits=4), None], [f], o
        for adj_x in (False, True):
            for adj_y in (False, True):
                x = self.floats(2, 1, *((4, 3) if adj_x else (3, 4)))
                y = self.floats(1, 3, *((5, 4) if adj_y else (4, 5)))
                yield "BATCH_MATMUL", [x, y], [f], options("BatchMatMulOptions", adjX=adj_x, adjY=adj_y)
        ids = self.ints(4, low=0, high=6)
        yield "EMBEDDING_LOOKUP", [ids, Const(self.floats(6, 32))], [f], None
        yield "EMBEDDING_LOOKUP", [ids, Const(self.ints(6, 32, low=-127, high=128, dtype=np.int8),
                                              self.floats(6, low=0.01, high=0.1))], [f], None
        yield "EMBEDDING_LOOKUP", [ids, Const(self.ints(6, 32, low=-8, high=8), self.floats(6, low=0.01, high=0.1),
                                              bits=4)], [f], None
        yield "EMBEDDING_LOOKUP", [ids, Const(self.ints(6, 64, low=-8, high=8), self.block_scales(6, 2), bits=4)], [f], None

    def reductions(self):
        f = np.float32
        x = self.floats(2, 3, 4)
        yield "SOFTMAX", [x], [f], options("SoftmaxOptions", beta=float(self.rng.uniform(0.5, 2)))
        for op in ("SUM", "MEAN", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"):
            for axes in ([2], [0, 1], [-2]):
                for keep in (False, True):
                    yield op, [x, i32(*axes)], [f], options("ReducerOptions", keepDims=keep)
        for op in ("SUM", "REDUCE_MAX", "REDUCE_MIN"):
            yield op, [self.ints(2, 3), i32(1)], [np.int32], options("ReducerOptions")
        for op in ("REDUCE_ANY", "REDUCE_ALL"):
            yield op, [self.bools(3, 4), i32(1)], [np.bool_], options("ReducerOptions")
        yield "ARG_MAX", [x, scalar(1)], [np.int32], options("ArgMaxOptions", outputType=2)
        yield "ARG_MIN", [x, scalar(2)], [np.int64], options("ArgMinOptions", outputType=4)
        for exclusive in (False, True):
            for reverse in (False, True):
                yield "CUMSUM", [x, scalar(1)], [f], options("CumsumOptions", exclusive=exclusive, reverse=reverse)

    def moves(self):
        f = np.float32
        x = self.floats(2, 3, 4)
        yield "RESHAPE", [x, i32(4, 6)], [f], options("ReshapeOptions", newShape=[4, 6])
        yield "SQUEEZE", [self.floats(1, 3, 1)], [f], options("SqueezeOptions", squeezeDims=[0])
        yield "EXPAND_DIMS", [x, scalar(1)], [f], options("ExpandDimsOptions")
        yield "TRANSPOSE", [x, i32(*self.rng.permutation(3))], [f], options("TransposeOptions")
        yield "SLICE", [x, i32(0, 1, 1), i32(2, 1, -1)], [f], options("SliceOptions")
        for axis in (1, 4):
            yield "STRIDED_SLICE", [x, i32(0, 1, 3), i32(1, 3, 4), i32(1, 1, 1)], [f], options(
                "StridedSliceOptions", shrinkAxisMask=axis)
        for masks in ({}, {"beginMask": 2}, {"endMask": 4}, {"newAxisMask": 1}):
            yield "STRIDED_SLICE", [x, i32(0, 1, 3), i32(2, 3, 0), i32(1, 1, -2)], [f], options(
                "StridedSliceOptions", **masks)
        for axis in (0, 1, -1):
            yield "CONCATENATION", [x, x, x], [f], options("ConcatenationOptions", axis=axis)
            yield "PACK", [x, x], [f], options("PackOptions", axis=axis, valuesCount=2)
        yield "UNPACK", [x], [f] * 3, options("UnpackOptions", axis=1, num=3)
        yield "SPLIT", [scalar(2), x], [f, f], options("SplitOptions", numSplits=2)
        yield "SPLIT_V", [x, i32(1, 3), scalar(2)], [f, f], options("SplitVOptions", numSplits=2)
        pads = Const(np.array([[1, 0], [0, 2], [1, 1]], np.int32))
        yield "PAD", [x, pads], [f], options("PadOptions")
        yield "PADV2", [x, pads, scalar(-2.5, np.float32)], [f], options("PadV2Options")
        yield "TILE", [x, i32(2, 1, 3)], [f], options("TileOptions")
        yield "BROADCAST_TO", [self.floats(3, 1), i32(2, 3, 4)], [f], options("BroadcastToOptions")
        for axis, batch in ((0, 0), (1, 0), (2, 1)):
            yield "GATHER", [x, self.ints(2, 2, low=0, high=2)], [f], options("GatherOptions", axis=axis, batchDims=batch)
        yield "GATHER_ND", [x, self.ints(3, 2, low=0, high=2)], [f], options("GatherNdOptions")
        yield "DYNAMIC_UPDATE_SLICE", [x, self.floats(1, 2, 2), self.ints(3, low=-1, high=5)], [f], options(
            "DynamicUpdateSliceOptions")
        for axis in (-1, 0):
            yield "ONE_HOT", [self.ints(2, 2, low=0, high=5), scalar(4), scalar(2.0, np.float32),
                              scalar(-1.0, np.float32)], [f], options("OneHotOptions", axis=axis)
        yield "RANGE", [scalar(2), scalar(11), scalar(3)], [np.int32], options("RangeOptions")
        yield "FILL", [i32(2, 3), scalar(1.5, np.float32)], [f], options("FillOptions")
        yield "SHAPE", [x], [np.int32], options("ShapeOptions", outType=2)
        yield "ZEROS_LIKE", [x], [f], options("ZerosLikeOptions")

    def all(self):
        for part in (self.elementwise, self.logic, self.casts, self.linear, self.reductions, self.moves):
            yield from part()


def run_peer(graph, op):
    # XNNPACK cannot run a graph of constants alone.
    resolver = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES if op == "DEQUANTIZE" else OpResolverType.AUTO
    interpreter = Interpreter(model_content=graph.bytes(), num_threads=1, experimental_op_resolver_type=resolver)
    runner = interpreter.get_signature_runner("main")
    out = runner(**graph.feeds)
    return [out[f"o{i}"] for i in range(len(out))]


def run_hone(tool, graph, folder, types):
    folder.mkdir(parents=True)
    (folder / "model.tflite").write_bytes(graph.bytes())
    for name, value in graph.feeds.items():
        np.ascontiguousarray(value).tofile(folder / f"{name}.bin")
    done = subprocess.run([tool, folder / "model.tflite"], input=f"main {folder} {folder}\n", text=True,
                          capture_output=True)
    if done.stdout.strip() != "ok":
        raise RuntimeError((done.stdout + done.stderr).strip())
    return [np.fromfile(folder / f"o{i}.bin", dtype) for i, dtype in enumerate(types)]


def difference(ours, theirs):
    """Of the largest value; infinite where shapes or special values differ."""
    theirs = theirs.reshape(-1)
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return np.inf
    if ours.dtype not in (np.float32, np.float16):
        return 0.0 if (ours == theirs).all() else np.inf
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    if (np.isfinite(a) != np.isfinite(b)).any():
        return np.inf
    finite = np.isfinite(b)
    return float(np.abs(a - b)[finite].max(initial=0) / max(1.0, np.abs(b[finite]).max(initial=0)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", default=str(ROOT / "build/release/src/executor/run_tflite"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", help="leave the models here")
    args = parser.parse_args()
    checks = Checks()
    worst = {}
    with tempfile.TemporaryDirectory() as tmp:
        base = pathlib.Path(args.keep or tmp)
        for number in range(args.rounds):
            for i, (op, operands, types, opts) in enumerate(Cases(np.random.default_rng(args.seed + number)).all()):
                name = f"{op} {number}.{i}"
                try:
                    # The peer works out the shapes of the outputs; ours are checked against the file.
                    guess = [2, 1, 3] if op == "SLICE" else [1]
                    theirs = run_peer(Graph(op, operands, [(guess, t) for t in types], opts), op)
                except (RuntimeError, ValueError) as e:
                    checks.check(False, f"{name}: the peer refuses it: {str(e).splitlines()[0][:100]}")
                    continue
                graph = Graph(op, operands, [(t.shape, t.dtype) for t in theirs], opts)
                try:
                    ours = run_hone(args.tool, graph, base / f"{number}-{i}-{op}", [t.dtype for t in theirs])
                except RuntimeError as e:
                    checks.check(False, f"{name}: {e}")
                    continue
                error = max(difference(a, b) for a, b in zip(ours, theirs))
                worst[op] = max(worst.get(op, 0), error)
                limit = 1e-3 if any(t.dtype == np.float16 for t in theirs) else 3e-6
                if not checks.check(error <= limit, f"{name} ({error:.1e})"):
                    print(ours, theirs)
    print("largest difference by operator: " + ", ".join(f"{k} {v:.1e}" for k, v in sorted(worst.items())))
    checks.finish()


if __name__ == "__main__":
    main()
