#!/usr/bin/env python3
"""sbom.py FOLDER VERSION - what is inside a release, as SPDX 2.3 on standard output.

Every file of FOLDER with its hash; what the Debian packages depend on, by their own control
files; the libraries that a wheel carries; and Vega, which is embedded in the program."""
import glob
import hashlib
import json
import os
import re
import subprocess
import sys
import time
import zipfile


def identifier(text):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", text)


def package(name, version, licence, comment=None, checksum=None):
    out = {"SPDXID": identifier(f"{name}-{version}"), "name": name, "versionInfo": version,
           "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": licence,
           "licenseDeclared": licence, "copyrightText": "NOASSERTION"}
    if comment:
        out["comment"] = comment
    if checksum:
        out["checksums"] = [{"algorithm": "SHA256", "checksumValue": checksum}]
    return out


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def control(deb, field):
    return subprocess.run(["dpkg-deb", "-f", deb, field], capture_output=True, text=True, check=True).stdout.strip()


def installed(name):
    """The version of a Debian package on the machine that built."""
    done = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", name], capture_output=True, text=True)
    return done.stdout or "NOASSERTION"


def main(folder, version):
    packages, relations = [], []
    here = package("lipscope", version, "MIT")
    packages.append(here)

    def add(other, relation, to=here):
        if all(p["SPDXID"] != other["SPDXID"] for p in packages):
            packages.append(other)
        relations.append({"spdxElementId": to["SPDXID"], "relationshipType": relation,
                          "relatedSpdxElement": other["SPDXID"]})

    add(package("vega", installed("libjs-vega"), "BSD-3-Clause", "embedded in the page of `lipscope report`"), "CONTAINS")
    for path in sorted(glob.glob(os.path.join(folder, "*"))):
        name = os.path.basename(path)
        if name.startswith("SHA256SUMS") or name.endswith(".spdx.json"):
            continue
        artefact = package(name, version, "MIT", checksum=sha256(path))
        add(artefact, "GENERATES")
        if name.endswith(".deb"):
            for need in filter(None, (n.strip() for n in control(path, "Depends").split(","))):
                own = need.split()[0].split(":")[0]
                if not own.startswith(("lipscope", "liblipscope")):
                    add(package(own, installed(own), "NOASSERTION", "a Debian package"), "DEPENDS_ON", artefact)
        if name.endswith(".whl"):
            with zipfile.ZipFile(path) as wheel:
                for inner in sorted(n for n in wheel.namelist() if ".libs/" in n and ".so" in n):
                    digest = hashlib.sha256(wheel.read(inner)).hexdigest()
                    add(package(os.path.basename(inner), "NOASSERTION", "NOASSERTION", "carried by the wheel", digest),
                        "CONTAINS", artefact)
    digest = hashlib.sha256("".join(p["checksums"][0]["checksumValue"] for p in packages if "checksums" in p).encode())
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", "0"))))
    json.dump({"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
               "name": f"lipscope-{version}", "documentNamespace": f"urn:lipscope:{version}:{digest.hexdigest()[:32]}",
               "creationInfo": {"created": created, "creators": ["Tool: lipscope-sbom"]},
               "packages": packages,
               "relationships": [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",
                                  "relatedSpdxElement": here["SPDXID"]}] + relations},
              sys.stdout, indent=1)
    print()


main(*sys.argv[1:])
