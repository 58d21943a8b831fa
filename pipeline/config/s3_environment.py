"""How Spark reaches S3, by the variables of the environment that pyarrow and the AWS command line take as well.

A lake is written by Spark and by pyarrow. Each has settings of its own, and would have to get the same ones. So there
are none in the configuration: both take the AWS variables, and no secret is in a file of ours.

Source: AWS SDKs and Tools Reference Guide, "Service-specific endpoints", "AWS Region", "Standardized credential
providers"; Hadoop, "Connecting to an Amazon S3 Bucket through the S3A Connector".
"""

from collections.abc import Mapping
from typing import Final

# The SDK's own chain: variables, a web identity's token (as Kubernetes has for IAM roles), a profile, a container's
# role, a machine's role. Hadoop's default leaves out the second and the third.
_CREDENTIALS: Final = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"

# The class that lets S3 refuse a version of a Delta table that is there already (`S3LogStore.scala`).
LOG_STORE_JAR: Final = "tidemark-s3-log-store.jar"
LOG_STORE: Final = "tidemark.S3LogStore"

# What is on its way to S3 waits in memory, since Hadoop can't use a disk as Tidemark has it (`RawLocalFileSystem`). A
# buffer is as large as a part, also for a commit of a few bytes. So a part is the eighth of Hadoop's default.
_IN_MEMORY: Final = {
    "spark.hadoop.fs.s3a.fast.upload.buffer": "bytebuffer",
    "spark.hadoop.fs.s3a.multipart.size": "8M",
    # Hadoop's default keeps what it has read of files, without regard to a small heap.
    "spark.hadoop.fs.s3a.input.stream.type": "classic",
}

# A store other than AWS's checks only that a region is named in the signature.
_ANY_REGION: Final = "us-east-1"


def log_store_setting(scheme: str) -> str:
    """Returns the setting that names the class for the logs of Delta tables whose URIs begin so."""
    return f"spark.delta.logStore.{scheme}.impl"


def s3_endpoint(environment: Mapping[str, str]) -> str | None:
    """Returns where the store answers; None for AWS itself."""
    return environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL") or None


def s3_conf(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns Spark's settings for S3."""
    conf = {
        log_store_setting("s3a"): LOG_STORE,
        log_store_setting("s3"): LOG_STORE,
        "spark.hadoop.fs.s3a.aws.credentials.provider": _CREDENTIALS,
        **_IN_MEMORY,
    }
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    if endpoint := s3_endpoint(environment):
        region = region or _ANY_REGION
        conf["spark.hadoop.fs.s3a.endpoint"] = endpoint
        # Such a store seldom has a name for each bucket. pyarrow does the same.
        conf["spark.hadoop.fs.s3a.path.style.access"] = "true"
    if region:
        conf["spark.hadoop.fs.s3a.endpoint.region"] = region
    return conf
