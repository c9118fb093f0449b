"""A small Hub-compatible server over a folder, for tests. It needs only the standard library.

    PYTHONPATH=tests/integration/hub python -m hub_server --data FOLDER --port 8765 --token hf_test:tester
    HF_ENDPOINT=http://127.0.0.1:8765 HF_TOKEN=hf_test HF_HOME=<fresh folder> HF_HUB_DISABLE_TELEMETRY=1 python ...

It works with huggingface_hub 2.4, hf_xet 1.8, transformers 5.23 and datasets 5.2. It serves accounts, repositories,
refs, trees, the three upload routes (regular: base64 in the commit; lfs: batch, PUT, verify; xet: token, xorbs, shards)
and downloads with ranges and xet reconstruction. It lacks pull requests, git over HTTP, buckets, spaces and gating.

Tests use these hooks: POST /_test/faults `[{"method", "path" (regular expression), "times", "status", "headers",
"delay", "after", "drop": "before" | "after"}]`, GET /_test/log, GET /_test/stats and POST /_test/reset. `settings`
lists the environment variables.
"""
