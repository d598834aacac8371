"""The page of `gnn-worker report` in a real browser: it draws, and nothing of a run's texts runs."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/support"))
import browser  # noqa: E402

WORKER = Path(os.environ["GNN_BUILD_DIR"]) / "worker/main/gnn-worker"
HOSTILE = "</script><img src=x onerror=\"document.title='taken'\"><!--\u2028\u2029"
JOB = """
apiVersion: gnn.dev/v1alpha1
kind: GNNJob
metadata: {name: small}
spec:
  task: {type: NodeClassification}
  dataset:
    format: Synthetic
    synthetic: {shape: FakeDataset, scale: "0.01"}
    split: {type: Random, train: "0.6", validation: "0.2", test: "0.2"}
  model: {type: GCN, gcn: {layers: 2, hiddenChannels: 8}}
  sampling: {fanout: [5, 5]}
  training: {epochs: 4, batchSize: 128}
  workers: {nodes: 1, processesPerNode: 2}
"""


def worker(*arguments):
    line = [str(WORKER), *map(str, arguments)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{line}: exit code {done.returncode}\n{done.stdout}{done.stderr}")


@unittest.skipUnless(browser.program() or "CI" in os.environ, "chromium-headless-shell is not installed")
class ReportInABrowser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        (cls.folder / "job.yaml").write_text(JOB, encoding="utf-8")
        worker("run", cls.folder / "job.yaml", "--set", f"checkpoint.path={cls.folder}/checkpoints")
        cls.record = json.loads((cls.folder / "checkpoints/run.json").read_text(encoding="utf-8"))
        cls.browser = cls.enterClassContext(browser.Browser())

    def page_of(self, record):
        (self.folder / "run.json").write_text(json.dumps(record), encoding="utf-8")
        worker("report", self.folder, "--output", self.folder / "report.html")
        page = self.browser.new_page()
        page.open(self.folder / "report.html")
        self.assertEqual(page.complaints, [])
        self.assertEqual(page.evaluate("document.documentElement.dataset.ready"), "true")
        return page

    def test_draws_a_run_and_loads_nothing_else(self):
        page = self.page_of(self.record)
        self.assertEqual([Path(url).name for url in page.requests], ["report.html"])
        charts = page.evaluate("[...document.querySelectorAll('figure')].map((one) => one.querySelector('h3').textContent)")
        for title in ("Loss", "Metrics", "Learning rate", "Phases of the steps", "Seconds of steps", "In-degrees", "Classes of"):
            self.assertTrue([chart for chart in charts if chart.startswith(title)], (title, charts))
        points = page.evaluate("document.querySelector('figure polyline').getAttribute('points').split(' ').length")
        self.assertEqual(points, 4)
        self.assertEqual(page.evaluate("document.querySelectorAll('[data-bars]')[0].dataset.bars"), "2")
        counted = page.evaluate("document.querySelectorAll('#confusion td.right').length")
        self.assertEqual(counted, len(self.record["confusion"]["classes"]))
        # By keyboard: the newest epoch but one, and the numbers of a chart.
        page.evaluate("document.querySelector('figure svg').focus()")
        page.call("Input.dispatchKeyEvent", type="keyDown", key="ArrowLeft", windowsVirtualKeyCode=37)
        self.assertIn("Epoch 3: loss", page.evaluate("document.querySelector('.readout').textContent"))
        page.evaluate("document.querySelector('figure summary').click()")
        self.assertEqual(page.evaluate(
            "new Promise((done) => setTimeout(() => done(document.querySelectorAll('figure details tbody tr').length), 0))"), 4)

    def test_shows_texts_of_a_run_as_texts(self):
        record = json.loads(json.dumps(self.record))
        record["facts"]["job"] = HOSTILE
        record["attempts"][0]["reason"] = HOSTILE
        record["outcome"]["metrics"][HOSTILE] = 1
        page = self.page_of(record)
        self.assertEqual(page.evaluate("document.querySelectorAll('img').length"), 0)
        for place in ("document.getElementById('job').textContent", "document.title",
                      "document.querySelector('.scroll td:last-child').textContent"):
            self.assertIn("</script><img src=x onerror=", page.evaluate(place))

    def test_lets_no_script_of_others_run(self):
        page = self.page_of(self.record)
        page.evaluate("(() => { const one = document.createElement('script'); one.textContent = 'document.title = \"taken\"';"
                      " document.body.append(one); })()")
        self.assertNotEqual(page.evaluate("document.title"), "taken")
        self.assertIn("Content Security Policy", " ".join(page.complaints))

    def test_shows_a_run_that_has_hardly_begun(self):
        record = {name: self.record[name] for name in ("format", "facts", "epochStride", "attempts", "attemptsLeftOut")}
        page = self.page_of(record | {"epochs": []})
        self.assertIn("No epoch has ended yet.", page.evaluate("document.body.textContent"))
        gaps = dict(self.record["epochs"][0], loss=None, epoch=9)
        self.page_of(self.record | {"epochs": [gaps]})


if __name__ == "__main__":
    unittest.main()
