"""The data sets of the two papers and their usual neighbours, by short name, each pinned to a revision of the Hub."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """A data set on the Hub; `revision` is a commit, so that its rows cannot change."""

    path: str
    split: str
    revision: str | None
    config: str | None = None


PROCESSED = ("open-r1/DAPO-Math-17k-Processed", "train", "31dd309567e3da778038cc87d868b6097a3ccf68")
RAW = ("BytedTsinghua-SIA/DAPO-Math-17k", "train", "65877096c24ffa7abc4e4fa5edb95cf3413a5674")
DEEPSCALER = ("agentica-org/DeepScaleR-Preview-Dataset", "train", "b6ae8c60f5c1f2b594e2140b91c49c9ad0949e29")

TRAINING = {
    # The raw set holds each problem about 100 times; the processed one, of both languages, is STEER's.
    "dapo-math-17k": Source(*PROCESSED, "all"),
    "dapo-math-17k-en": Source(*PROCESSED, "en"),
    "dapo-math-17k-raw": Source(*RAW),
    # STARE's script reads the first; its authors recommend the others beside DAPO's and DeepScaleR's. No commits of
    # these three could be found, so they are the sets that may change.
    "dapo-math-17k-cleaned": Source("haizhongzheng/DAPO-Math-17K-cleaned", "train", None),
    "skywork-or1-math": Source("Skywork/Skywork-OR1-RL-Data", "math", None),
    "polaris-53k": Source("POLARIS-Project/Polaris-Dataset-53K", "train", None),
    "deepscaler": Source(*DEEPSCALER),
    "gsm8k-train": Source("openai/gsm8k", "train", "740312add88f781978c0658806c59bc2815b9866", "main"),
}
BENCHMARKS = {
    "gsm8k": Source("openai/gsm8k", "test", "740312add88f781978c0658806c59bc2815b9866", "main"),
    "aime24": Source("math-ai/aime24", "test", "83a7f387baaa524a8bda0022eac0541582297103"),
    "aime25": Source("math-ai/aime25", "test", "563bb8404243c5f09de6ec262f2db674fe5bce9b"),
    # No commits of these two could be found.
    "aime26": Source("MathArena/aime_2026", "train", None),
    "hmmt_feb26": Source("MathArena/hmmt_feb_2026", "train", None),
    "amc23": Source("math-ai/amc23", "test", "80815d37005feb82cd7f8fbc6901d5d3eff43057"),
    "math500": Source("HuggingFaceH4/MATH-500", "test", "6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be"),
    "minerva": Source("math-ai/minervamath", "test", "ee46ddc498933b1977577953250ca5c66be64f96"),
    "olympiadbench": Source("math-ai/olympiadbench", "test", "4faaf1e6ec17d11a4218a9bf4c049ecaf954dd84"),
}
SOURCES = TRAINING | BENCHMARKS
