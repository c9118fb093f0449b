# Export the last checkpoint as a transformers folder. parity.json is written last and compares the exported model's
# logits with those of the training.

from bloomery.spec.export_resources import resources_of_export
from bloomery.spec.weight_files import weight_files

WEIGHTS = weight_files(CONFIG)
EXPORT_NEEDS = resources_of_export(CONFIG)


rule export_model:
    input:
        config="<run>/config/export.json",
        finished=finished_training,
        tokenizer="<run>/results/tokenizer.json",
    output:
        f"<run>/results/export/{MODEL}.json",
    log:
        "<logs>/export_model.log",
    benchmark:
        "<benchmarks>/export_model.tsv"
    conda:
        "../envs/bloomery.yaml"
    threads: EXPORT_NEEDS.threads
    resources:
        **fixed_job(mem_mb=EXPORT_NEEDS.memory_mb, runtime=EXPORT_NEEDS.minutes),
    params:
        run=run_folder(),
        shard=WEIGHTS.shard_bytes,
    message:
        "export the model {MODEL}"
    shell:
        "bloomery export model --config {input.config:q} --run {params.run:q} --result {output:q}"
        " --max-shard-size {params.shard:q} > {log:q} 2>&1"


rule export:
    input:
        rules.train.input,
        rules.export_model.output,
        PARITY_PAGE,
    message:
        "export: every output exists"
