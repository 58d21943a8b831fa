"""What Spark is given of the environment for S3."""

import pytest

from pipeline.config.s3_environment import s3_conf

S3A = "spark.hadoop.fs.s3a."


def s3a(environment: dict[str, str]) -> dict[str, str]:
    """What says where the store is."""
    always = s3_conf({})
    return {key.removeprefix(S3A): value for key, value in s3_conf(environment).items() if key not in always}


@pytest.mark.parametrize("name", ["AWS_REGION", "AWS_DEFAULT_REGION"])
def test_aws_needs_no_more_than_a_region(name: str) -> None:
    assert s3a({}) == {}
    assert s3a({name: "eu-west-1"}) == {"endpoint.region": "eu-west-1"}


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"])
def test_another_store_has_its_buckets_in_the_path(name: str) -> None:
    there = {"endpoint": "http://minio:9000", "path.style.access": "true"}
    assert s3a({name: "http://minio:9000"}) == {**there, "endpoint.region": "us-east-1"}
    assert s3a({name: "http://minio:9000", "AWS_REGION": "here"}) == {**there, "endpoint.region": "here"}


def test_the_endpoint_of_s3_goes_before_the_one_of_all_services() -> None:
    both = {"AWS_ENDPOINT_URL": "http://all", "AWS_ENDPOINT_URL_S3": "http://s3"}
    assert s3a(both)["endpoint"] == "http://s3"


def test_no_secret_is_among_the_settings() -> None:
    conf = s3_conf({"AWS_ACCESS_KEY_ID": "who", "AWS_SECRET_ACCESS_KEY": "secret"})
    assert not {"who", "secret"} & set(conf.values())
