"""All files of the page are there by their names, with their kinds."""

from actors.http.static_files import load_files


def test_the_page_is_whole() -> None:
    files = load_files()
    kinds = {name.rpartition(".")[2]: file for name, file in files.items()}
    assert {"css", "js", "svg"} <= kinds.keys()
    assert all(file.body for file in files.values())
