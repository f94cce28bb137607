from __future__ import annotations

import json

import pytest

from harness.errors import BenchError, UsageMistake
from harness.lab.qemu import image, recipe
from harness.lab.qemu.image import adopt_image, build_image, cache_folder, find_image


@pytest.fixture
def files(tmp_path):
    kernel, initrd = tmp_path / "vmlinuz-other", tmp_path / "initrd-other"
    kernel.write_bytes(b"kernel")
    initrd.write_bytes(b"initrd")
    return kernel, initrd


def test_the_cache_is_where_the_user_keeps_caches(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "bringup" / "lab"


def test_without_an_image_one_line_says_how_to_get_one(tmp_path):
    with pytest.raises(BenchError, match="no image yet; build it with `bringup lab build`"):
        find_image(tmp_path)


def test_another_distribution_s_kernel_and_initrd_are_kept_whole(tmp_path, files):
    adopted = adopt_image(*files, cache=tmp_path / "cache")
    assert find_image(tmp_path / "cache") == adopted
    for file in files:
        file.unlink()
    assert (adopted.kernel.read_bytes(), adopted.initrd.read_bytes()) == (b"kernel", b"initrd")
    assert "initrd-other" in adopted.origin


def test_a_file_that_is_not_there_leaves_nothing(tmp_path, files):
    with pytest.raises(UsageMistake, match="no file"):
        adopt_image(files[0], tmp_path / "missing", cache=tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("part", ["vmlinuz", "initrd"])
def test_a_damaged_image_is_not_booted_and_can_be_built_again(tmp_path, files, part):
    adopted = adopt_image(*files, cache=tmp_path / "cache")
    (adopted.kernel.parent / part).write_bytes(b"damaged")
    with pytest.raises(BenchError, match=rf"damaged \({part}\); build it with"):
        find_image(tmp_path / "cache")
    adopt_image(*files, cache=tmp_path / "cache")
    assert find_image(tmp_path / "cache") == adopted


def test_a_manifest_that_cannot_be_read_counts_as_no_image(tmp_path, files):
    adopted = adopt_image(*files, cache=tmp_path / "cache")
    (adopted.kernel.parent / "manifest.json").write_text("{")
    with pytest.raises(BenchError, match="not whole"):
        find_image(tmp_path / "cache")


def test_an_image_of_an_older_recipe_is_refused(tmp_path, files):
    adopted = adopt_image(*files, cache=tmp_path / "cache")
    manifest = json.loads((adopted.kernel.parent / "manifest.json").read_text())
    (adopted.kernel.parent / "manifest.json").write_text(json.dumps(manifest | {"own": True}))
    with pytest.raises(BenchError, match="another version"):
        find_image(tmp_path / "cache")


@pytest.fixture
def packages(monkeypatch):
    """Packages of a few files instead of Debian's; counts how often they were fetched."""
    fetched = []

    def fetch(names, folder):
        fetched.append(tuple(names))
        (folder / "all.deb").touch()
        return (folder / "all.deb",)

    def unpack(_, root):
        for path, text in {
            "boot/vmlinuz-6.1.0-1": "kernel",
            "bin/busybox": "#!/bin/sh\nprintf 'sh\\ninit\\nbusybox\\n'\n",
            "usr/bin/python3.11": "python",
            **{f"lib/modules/6.1.0-1/{module}": "module" for module in recipe.MODULES},
        }.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        (root / "bin/busybox").chmod(0o755)

    monkeypatch.setattr(image, "kernel_package", lambda: "linux-image-6.1.0-1")
    monkeypatch.setattr(image, "fetch", fetch)
    monkeypatch.setattr(image, "unpack", unpack)
    return fetched


def test_an_image_is_built_once_and_again_only_where_it_is_damaged(tmp_path, packages):
    built, is_new = build_image(tmp_path)
    assert is_new
    assert build_image(tmp_path) == (built, False)
    assert len(packages) == 1
    assert packages[0] == ("linux-image-6.1.0-1", *recipe.PACKAGES)
    before = built.initrd.read_bytes()
    built.initrd.write_bytes(b"damaged")
    assert build_image(tmp_path) == (built, True)
    assert built.initrd.read_bytes() == before
    assert find_image(tmp_path) == built
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["current", recipe.digest()])


def test_a_build_that_fails_leaves_no_image(tmp_path, packages, monkeypatch):
    def fail(*_):
        raise BenchError("apt-get download: no network")

    monkeypatch.setattr(image, "fetch", fail)
    with pytest.raises(BenchError, match="no network"):
        build_image(tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("usr/lib/python3.11/json/decoder.py", True),
        ("usr/lib/python3.11/lib-dynload/_json.cpython-311-x86_64-linux-gnu.so", True),
        ("usr/lib/python3.11/test/support/__init__.py", False),
        ("lib/x86_64-linux-gnu/libc.so.6", True),
        ("usr/lib/x86_64-linux-gnu/libcrypto.so.3", True),
        ("usr/share/doc/pciutils/README", False),
        ("lib/modules/6.1.0-1/kernel/drivers/net/virtio_net.ko", False),
        ("usr/bin/lspci", True),
    ],
)
def test_only_what_the_machine_needs_goes_in(path, kept):
    assert recipe.is_kept(path) is kept


def test_any_change_of_the_recipe_is_another_image(monkeypatch):
    before = recipe.digest()
    monkeypatch.setattr(recipe, "PACKAGES", (*recipe.PACKAGES, "strace"))
    assert recipe.digest() != before
