"""The Helm chart, and the plain manifests that are made of it."""
