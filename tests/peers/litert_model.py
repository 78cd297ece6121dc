# SPDX-FileCopyrightText: The Hone authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the TFLite graphs of a .litertlm with ai-edge-litert (XNNPACK), the cache threaded by hand."""

import struct

import numpy as np
from ai_edge_litert.interpreter import Interpreter

MASKED = np.float32(-0.7 * np.finfo(np.float32).max)  # as LiteRT-LM masks


def sections(path):
    """[(type number, {item: value}, bytes)] of a bundle."""
    from litert_lm_builder import litertlm_header_schema_py_generated as schema

    data = open(path, "rb").read()
    if data[:8] != b"LITERTLM":
        raise ValueError(f"{path}: no .litertlm file")
    end = struct.unpack_from("<Q", data, 24)[0]
    root = schema.LiteRTLMMetaData.GetRootAs(data[32:end], 0)
    meta = root.SectionMetadata()
    out = []
    for i in range(meta.ObjectsLength()):
        section = meta.Objects(i)
        items = {}
        for j in range(section.ItemsLength()):
            pair = section.Items(j)
            if pair.ValueType() == schema.VData.StringValue:
                value = schema.StringValue()
                table = pair.Value()
                value.Init(table.Bytes, table.Pos)
                items[pair.Key().decode()] = value.Value().decode()
        out.append((section.DataType(), items, data[section.BeginOffset() : section.EndOffset()]))
    return out


def system_metadata(path):
    from litert_lm_builder import litertlm_header_schema_py_generated as schema

    data = open(path, "rb").read(16384)
    end = struct.unpack_from("<Q", data, 24)[0]
    meta = schema.LiteRTLMMetaData.GetRootAs(data[32:end], 0).SystemMetadata()
    return [meta.Entries(i).Key().decode() for i in range(meta.EntriesLength())]


class LitertModel:
    """Decoder and embedder of a bundle. feed() appends tokens; logits come from decode only."""

    def __init__(self, path, threads=1):
        models = {items.get("model_type", "tf_lite_prefill_decode"): data
                  for kind, items, data in sections(path) if kind == 3}
        self.decoder = Interpreter(model_content=models["tf_lite_prefill_decode"],
                                   num_threads=threads)
        self.embedder = Interpreter(model_content=models["tf_lite_embedder"], num_threads=threads)
        self.embed = self.embedder.get_signature_runner("decode_embedder")
        self.runners = {key: self.decoder.get_signature_runner(key)
                        for key in self.decoder.get_signature_list()}
        self.prefill = sorted((int(key[8:]) for key in self.runners if key.startswith("prefill_")),
                              reverse=True)
        details = self.runners["decode"].get_input_details()
        self.context = int(details["mask"]["shape"][3])
        self.caches = {name: (tuple(d["shape"]), d["dtype"]) for name, d in details.items()
                       if name.startswith("kv_cache_")}
        self.reset()

    def reset(self):
        self.cache = {name: np.zeros(shape, dtype) for name, (shape, dtype) in self.caches.items()}
        self.position = 0

    def embeddings(self, ids):
        rows = [self.embed(token_ids=np.array([[i]], np.int32))["embeddings"] for i in ids]
        return np.concatenate(rows, axis=1)

    def _run(self, key, ids, length):
        """Runs one signature; ids may be shorter than its length (the rest is padding)."""
        count = len(ids)
        mask = np.full((1, 1, length, self.context), MASKED, np.float32)
        for row in range(count):
            mask[0, 0, row, : self.position + row + 1] = 0
        positions = np.zeros(length, np.int32)
        positions[:count] = np.arange(self.position, self.position + count)
        embeddings = self.embeddings(list(ids) + [0] * (length - count))
        out = self.runners[key](embeddings=embeddings, input_pos=positions, mask=mask, **self.cache)
        self.cache = {name: out[name] for name in self.cache}
        self.position += count
        return out

    def run_prefill(self, ids):
        """Fills the cache with ids as LiteRT-LM does: the longest rungs first, the rest padded."""
        ids = list(ids)
        while ids:
            fitting = [n for n in self.prefill if n <= len(ids)]
            length = fitting[0] if fitting else self.prefill[-1]
            self._run(f"prefill_{length}", ids[:length], length)
            ids = ids[length:]

    def decode(self, token):
        """Logits [vocab] behind one more token."""
        return self._run("decode", [token], 1)["logits"][0, 0]

    def logits(self, ids, prefill=0):
        """Logits of ids[prefill:], the first ids only prefilled."""
        self.reset()
        self.run_prefill(ids[:prefill])
        return np.stack([self.decode(i) for i in ids[prefill:]])

    def greedy(self, ids, count, suppress=()):
        """count greedy tokens behind ids, and the gap between the best two logits of each."""
        self.reset()
        self.run_prefill(ids[:-1])
        tokens, gaps, token = [], [], ids[-1]
        for _ in range(count):
            logits = self.decode(token)
            logits[list(suppress)] = -np.inf
            second, first = np.partition(logits, -2)[-2:]
            token = int(np.argmax(logits))
            tokens.append(token)
            gaps.append(float(first - second))
        return tokens, gaps
