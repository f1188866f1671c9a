"""The real apt and dpkg, with sources and machines of the test, which are folders."""

import hashlib
import shutil
import subprocess

from steelyard.bench.stack.packages import Manager, run_command


def deb(folder, name, version, depends="", *, postinst=""):
    """Build a package; ``postinst`` is the shell script that configures it."""
    tree = folder / f"tree-{name}-{version}"
    (tree / "DEBIAN").mkdir(parents=True)
    fields = {
        "Package": name,
        "Version": version,
        "Architecture": "all",
        "Maintainer": "x <x@example.org>",
        **({"Depends": depends} if depends else {}),
        "Description": "a package of the test\n Of several lines.",
    }
    (tree / "DEBIAN/control").write_text("".join(f"{key}: {text}\n" for key, text in fields.items()))
    (tree / f"usr/share/{name}").mkdir(parents=True)
    (tree / f"usr/share/{name}/version").write_text(version)
    if postinst:
        script = tree / "DEBIAN/postinst"
        script.write_text(f"#!/bin/sh\nset -e\n{postinst}\n")
        script.chmod(0o755)
    command = ["dpkg-deb", "--root-owner-group", "--build", str(tree), str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    shutil.rmtree(tree)


class Source:
    """A source of packages on the network of the test, which is a folder."""

    def __init__(self, folder, scheme="copy"):
        self.folder = folder
        self.scheme = scheme
        folder.mkdir(exist_ok=True)

    def publish(self):
        entries = []
        for path in sorted(self.folder.glob("*.deb")):
            command = ["dpkg-deb", "--field", str(path)]
            fields = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            size = path.stat().st_size
            entries.append(f"{fields}Filename: ./{path.name}\nSize: {size}\nSHA256: {digest}\n")
        (self.folder / "Packages").write_text("\n".join(entries))

    def line(self):
        return f"deb [trusted=yes] {self.scheme}:{self.folder} ./\n"


class System:
    """A machine with its own installed packages; runs the real tools on them."""

    def __init__(self, folder, source=None):
        self.folder = folder
        self.root = folder / "root"
        self.admin = self.root / "var/lib/dpkg"
        self.environment = {
            "APT_CONFIG": str(folder / "apt.conf"),
            "DPKG_ADMINDIR": str(self.admin),
            "DPKG_ROOT": str(self.root),
            "DPKG_FORCE": "not-root,bad-path,script-chrootless",
        }
        self.calls = []
        self.policy = folder / "policy-rc.d"
        if not self.root.exists():
            self._make("" if source is None else source.line())

    def _make(self, sources):
        folder = self.folder
        for path in (self.admin / "info", self.admin / "updates", self.admin / "triggers"):
            path.mkdir(parents=True)
        (self.admin / "status").touch()
        for name in ("lists/partial", "archives/partial", "state", "log"):
            (folder / name).mkdir(parents=True)
        (folder / "sources.list").write_text(sources)
        (folder / "apt.conf").write_text(
            f'''
Dir::State::lists "{folder}/lists";
Dir::State::status "{self.admin}/status";
Dir::Cache::archives "{folder}/archives";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
Dir::Etc::sourcelist "{folder}/sources.list";
Dir::Etc::sourceparts "-";
Dir::Etc::main "{folder}/none";
Dir::Etc::parts "{folder}/none.d";
Dir::State "{folder}/state";
Dir::Log "{folder}/log";
APT::Sandbox::User "root";
DPkg::Options {{ "--root={self.root}"; "--force-not-root"; "--log=/dev/null"; "--force-bad-path";
  "--force-script-chrootless"; }};
'''
        )

    def __call__(self, command, environment, *, undisturbed=False):
        self.calls.append(list(command))
        return run_command(command, {**environment, **self.environment}, undisturbed=undisturbed)

    def manager(self, **more):
        return Manager("apt", self, policy=self.policy, **more)

    def versions(self):
        return self.manager().installed()
