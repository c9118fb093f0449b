include: "workflow/Snakefile"


# Snakemake forgets the default target of a file that was included.
workflow.default_target = "all"
