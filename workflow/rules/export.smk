# Export the last checkpoint as a transformers folder. parity.json is written last and compares the exported model's
# logits with those of the training.

from bloomery.spec.weight_files import MODEL_FILES, weight_files

WEIGHTS = weight_files(CONFIG)


rule export_model:
    input:
        config="<run>/config/export.json",
        finished=finished_training,
        tokenizer="<run>/tokenizer/tokenizer.json",
    # The outputs name every file that a user of the model needs, so that a deleted file is created again.
    output:
        collect(f"<run>/export/{MODEL}/{{name}}", name=[*MODEL_FILES, WEIGHTS.file]),
        parity=report(
            f"<run>/export/{MODEL}/parity.json",
            caption="../report/parity.rst",
            category="Model",
            labels={"page": "Parity with the training's logits"},
        ),
    log:
        "<logs>/export_model.log",
    benchmark:
        "<benchmarks>/export_model.tsv"
    conda:
        "../envs/bloomery.yaml"
    threads: 2
    resources:
        **job(mem_mb=16000, runtime=240),
    params:
        run=run_folder(),
        shard=WEIGHTS.shard_bytes,
    message:
        "export the model {MODEL}"
    shell:
        "bloomery export model --config {input.config:q} --run {params.run:q} --output {output.parity:q}"
        " --max-shard-size {params.shard:q} > {log:q} 2>&1"


rule export:
    input:
        rules.train.input,
        rules.export_model.output,
    message:
        "export: every output exists"
