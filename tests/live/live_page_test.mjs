// The live page in a real browser: first with invented states, then with a real run of which a
// worker is killed. Usage: node live_page_test.mjs PROGRAM; with SCREENSHOTS=folder it also takes
// the pictures of the documentation. Ends with 0, 1 (failed) or 77 (skipped).
import { spawn } from "node:child_process";
import fs from "node:fs";
import http from "node:http";
import os from "node:os";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";

const kChromium = "/usr/bin/chromium";
const kWholeTestSeconds = 58;

function skip(why) {
  console.log(`skipped: ${why}`);
  process.exit(77);
}
if (!fs.existsSync(kChromium)) skip(`there is no ${kChromium}`);
const { chromium } = await import("playwright-core").catch(() => skip("playwright-core is not installed (npm ci in tests/live)"));
const program = process.argv[2];
if (!program) {
  console.log("usage: node live_page_test.mjs PROGRAM");
  process.exit(1);
}

// ---- Checks, each with a deadline.
let failures = 0;
function check(what, ok, more = "") {
  console.log(`${ok ? "ok    " : "FAILED"}  ${what}${ok || more === "" ? "" : `: ${more}`}`);
  if (!ok) ++failures;
  return ok;
}
async function eventually(what, condition, seconds = 8) {
  const end = Date.now() + seconds * 1000;
  let seen;
  do {
    // A page that is just being loaded has nothing to ask: that is no error yet.
    seen = await condition().catch(error => { console.log(`        ${error.message.split("\n")[0]}`); });
    if (seen) break;
    await pause(100);
  } while (Date.now() < end);
  return check(what, Boolean(seen), `not within ${seconds} s`);
}

// ---- What must not be left behind, however this ends.
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "starling-live-"));
let run = null, context = null, fake = null;
function clean_up() {
  if (run) {
    try { process.kill(-run.pid, "SIGKILL"); } catch { /* nobody of its group is left */ }
  }
  fake?.closeAllConnections();
  fake?.close();
  try {
    fs.rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  } catch { /* the browser may still write its own */ }
}
setTimeout(() => {
  console.log(`FAILED  the whole test takes longer than ${kWholeTestSeconds} s`);
  clean_up();
  process.exit(1);  // playwright ends its browser on exit
}, kWholeTestSeconds * 1000).unref();

// ---- The browser, and what it did wrong.
context = await chromium.launchPersistentContext(path.join(folder, "browser"), {
  executablePath: kChromium,
  timeout: 20000,
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
context.setDefaultTimeout(8000);
const page = context.pages()[0] ?? await context.newPage();
const desktop = { width: 1280, height: 900 }, phone = { width: 390, height: 844 };
let home = "", errors = [], elsewhere = [];
page.on("console", message => { if (message.type() === "error") errors.push(message.text()); });
page.on("pageerror", error => errors.push(error.message));
context.on("request", request => {
  if (!request.url().startsWith(home) && !request.url().startsWith("data:")) elsewhere.push(request.url());
});

async function open(url, size = desktop) {
  home = new URL(url).origin;
  errors = [];
  elsewhere = [];
  await page.setViewportSize(size);
  await page.goto(url);
}
function check_quiet(when) {
  check(`no errors in the browser's console (${when})`, errors.length === 0, errors.join("; "));
  check(`no request to elsewhere (${when})`, elsewhere.length === 0, elsewhere.join(" "));
}
const words_of = selector => page.locator(selector).innerText();
const number_at = (selector, attribute) => page.evaluate(
  ([s, a]) => Number(document.querySelector(s)?.getAttribute(a) ?? 0), [selector, attribute]);
const points_of = id => number_at(`#${id} .curve`, "data-points");
const scrolls_sideways = () => page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
const bytes_of_edges = () => page.evaluate(
  () => [...document.querySelectorAll("#topology .edge")].reduce((sum, e) => sum + Number(e.dataset.bytes), 0));
const colour_of = (selector, property) => page.evaluate(
  ([s, p]) => getComputedStyle(document.querySelector(s))[p].match(/[\d.]+/g).map(Number), [selector, property]);
const is_red = ([red, green, blue]) => red > 150 && red > 1.5 * green && red > 2 * blue;

// ---- Invented states.
function invented(workers, more = {}) {
  const nobody = { reason: "", sent: 5e6, received: 5e6, sent_rate: 1e6, received_rate: 1e6, kernel_sent: null };
  const ranks = [...Array(workers).keys()];
  return {
    name: "invented", message: "", state: "training", elapsed: 12,
    settings: { strategy: "pairwise", system: "", workers, servers: 0, model: "mlp", data: "synthetic", epochs: 3, batch: 64, lr: 0.1 },
    progress: { step: 120, steps: 700, epoch: 0.51, loss: 0.31, accuracy: 0.953, samples_per_second: 9000, seconds_left: 20 },
    workers: ranks.map(rank => ({ rank, role: "worker", state: "training", ...nobody })),
    edges: ranks.flatMap(rank => [1, 2].map(k => ({ from: rank, to: (rank + k) % workers, bytes: 1000 * (rank + 1), rate: k === 1 ? 1e6 : 0 }))),
    curves: { loss: [[1, 2], [2, 1], [3, 0.5]], accuracy: [[2, 0.5], [3, 0.9]], sent_rate: [[1, 1e6], [3, 4e6]] },
    log: [{ time: 0.5, text: "rank 0 has joined" }],
    ...more,
  };
}

async function with_invented_states() {
  const file = new URL("../../src/report/live_page.html", import.meta.url);
  let state = invented(4), delay = 0, asked = [], under_way = 0, most_under_way = 0;
  fake = http.createServer(async (request, response) => {
    if (!request.url.startsWith("/state")) return response.end(fs.readFileSync(file));
    asked.push(`${request.url} ${request.headers.authorization}`);
    most_under_way = Math.max(most_under_way, ++under_way);
    await pause(delay);
    --under_way;
    response.end(JSON.stringify(state));
  });
  await new Promise(done => fake.listen(0, "127.0.0.1", done));
  const url = `http://127.0.0.1:${fake.address().port}/`;
  const seen = name => eventually(`the page shows ${name}`, async () => (await words_of("#name")).startsWith(name), 5);

  delay = 700;  // longer than the page waits between two questions
  await open(`${url}#a%20secret`);
  await seen("invented");
  await pause(1500);
  check("the token is handed on, in a header", asked.every(u => u === "/state Bearer a secret"), asked[0]);
  check("the address no longer has it", page.url() === url, page.url());
  check("requests do not overlap", most_under_way === 1, `${most_under_way} at once`);
  delay = 0;

  const phases = () => page.evaluate(() => [...document.querySelectorAll("#topology .edge")]
    .map(e => `${e.hasAttribute("data-still")} ${e.querySelector(".bytes").style.strokeDashoffset}`));
  const moved_within = async ms => {
    const before = await phases();
    await pause(ms);
    return (await phases()).filter((phase, i) => phase !== before[i]).map(phase => phase.startsWith("true"));
  };
  const moved = await moved_within(400);
  check("bytes move on the 4 edges with a rate, and only there", moved.length === 4 && !moved.includes(true), moved.join());
  await page.emulateMedia({ reducedMotion: "reduce" });
  await pause(100);
  check("nothing moves for who wants less motion", (await moved_within(300)).length === 0);
  await page.emulateMedia({ reducedMotion: "no-preference" });
  await page.hover("#loss");
  check("a curve tells its value under the pointer", /^\S+ at \d+\.\d s$/.test(await words_of("section:has(#loss) .now")));
  check_quiet("4 workers");

  const evil = "<img src=x onerror=\"window.hit=1\"><script>window.hit=1</" + "script>";
  state = invented(4, { name: evil, state: "failed", message: evil, log: [{ time: 1, text: evil }] });
  state.settings.strategy = state.settings.model = state.workers[1].reason = evil;
  state.workers[1].state = "lost";
  await open(url, phone);
  await seen("<img");
  check("a hostile name stays text", await words_of("#name") === evil && (await words_of("#log")).includes(evil));
  check("none of it became markup or ran", await page.evaluate(() => !window.hit && !document.querySelector("img") && document.scripts.length === 1));
  check("the banner of a failed run has its message", (await words_of("#banner")).includes(evil));
  check("a long name does not make a phone scroll sideways", !await scrolls_sideways());
  check_quiet("hostile names");

  const nothing = { step: null, steps: null, epoch: null, loss: null, accuracy: null, samples_per_second: null, seconds_left: null };
  state = invented(4, { name: "no data", state: "starting", progress: nothing, edges: [], log: [],
                        curves: { loss: [], accuracy: [], sent_rate: [] } });
  await open(url);
  await seen("no data");
  check("a run without data says nothing strange", !/NaN|null|undefined|Infinity|\[object/.test(await words_of("body")));
  check("there is no banner", await page.locator("#banner").isHidden());
  check_quiet("no data");

  const summary = { accuracy: 0.97684, train_seconds: 10.27, seconds: 11.99, samples_per_second: 17402.4, wire_bytes_sent: 247996512, rounds: 2820 };
  state = invented(4, { name: "ended", state: "ended", summary });
  await seen("ended");
  check("at the end it has the figures of the terminal, as that writes them",
    await words_of("#banner") === "The run has ended: 97.68 %, training 10.3 s, 17,402 samples/s, 248.0 MB sent by all, 2,820 rounds of all workers.",
    await words_of("#banner"));

  state = invented(64, { name: "sixty-four" });
  Object.assign(state.progress, { step: 12345, steps: 99999, seconds_left: 3599, training_time: 3599 });
  state.elapsed = 3599;
  await open(url, phone);
  await seen("sixty-four");
  check("long times fit a phone", await page.evaluate(() => document.querySelector(".readouts").scrollWidth <= document.querySelector(".readouts").clientWidth));
  check("64 workers fit a phone", !await scrolls_sideways() && await page.locator(".worker").count() === 64);
  state = invented(1024, { name: "a thousand" });
  await seen("a thousand");
  check("of 2048 edges 256 are drawn", await page.locator("#topology .edge").count() === 256);
  const started = Date.now();
  await page.evaluate(() => { show(); show(); });
  check("1024 workers are redrawn in less than half a second", Date.now() - started < 1000, `${Date.now() - started} ms for two`);
  check_quiet("many workers");

  state = invented(4, { name: "soon gone" });
  await seen("soon gone");
  fake.closeAllConnections();
  fake.close();
  await eventually("when nobody answers, the banner says so", async () => /has ended or cannot be reached/.test(await words_of("#banner")));
  check("the last picture stays", await points_of("loss") === 3 && await page.locator(".worker").count() === 4);
}

// ---- A real run.
// The trainers that a program has started, by rank.
function trainers_of(parent) {
  const found = new Map();
  for (const pid of fs.readdirSync("/proc").filter(name => /^\d+$/.test(name)).map(Number)) {
    try {
      const status = fs.readFileSync(`/proc/${pid}/status`, "utf8");
      if (Number(/^PPid:\s*(\d+)/m.exec(status)[1]) !== parent || /^State:\s*Z/m.test(status)) continue;
      const rank = /(?:^|\0)STARLING_RANK=(\d+)/.exec(fs.readFileSync(`/proc/${pid}/environ`, "latin1"));
      if (rank) found.set(Number(rank[1]), pid);
    } catch { /* it has ended meanwhile */ }
  }
  return found;
}

function status_of(url, options) {
  return new Promise((done, failed) => {
    const request = http.request(url, { timeout: 5000, ...options }, response => {
      response.resume();
      done(response.statusCode);
    });
    request.on("timeout", () => request.destroy(new Error("no answer")));
    request.on("error", failed);
    request.end();
  });
}

async function picture(name, size, colorScheme) {
  if (!process.env.SCREENSHOTS) return;
  await page.emulateMedia({ colorScheme });
  await page.setViewportSize(size);
  await pause(1200);
  await page.screenshot({ path: path.join(process.env.SCREENSHOTS, name), fullPage: true });
}

async function with_a_real_run() {
  // ad-psgd goes on without a worker that is lost; the epochs are more than this test waits for.
  run = spawn(program, ["train", "--live", "127.0.0.1:0", "--system", "ad-psgd", "--workers", "4", "--data", "synthetic",
                        "--model", "mnist-cnn", "--lr", "0.01", "--epochs", "60", "--run", path.join(folder, "ad-psgd-4")],
              { detached: true, stdio: ["ignore", "ignore", "pipe"] });  // a group of its own, to end it as a whole
  let said = "", ended = false;
  run.stderr.on("data", text => { said += text; });
  run.on("error", error => { said += error.message; });
  run.on("exit", () => { ended = true; });
  const address = () => /live page: (http:\/\/\S+)/.exec(said)?.[1];
  for (let i = 0; i < 150 && !address() && !ended; ++i) await pause(100);
  if (!check("the program says where its page is", address(), said.trim())) return;

  await open(address());
  await eventually("the page says that it trains", () => page.evaluate(() => document.body.dataset.state === "training"), 15);
  await eventually("the curve of the loss has points", async () => await points_of("loss") >= 2, 15);
  await eventually("there are bytes on edges", async () => await bytes_of_edges() > 0);
  const loss = await points_of("loss"), accuracy = await points_of("accuracy"), sent = await bytes_of_edges();
  await eventually("curves get more points", async () => await points_of("loss") > loss || await points_of("accuracy") > accuracy);
  await eventually("bytes on edges grow", async () => await bytes_of_edges() > sent);

  const headers = { Authorization: `Bearer ${new URL(address()).hash.slice(1)}` };
  const metrics = await (await fetch(new URL("metrics", address()), { headers, signal: AbortSignal.timeout(5000) })).text();
  check("/metrics has the step", /^starling_step \d/m.test(metrics));
  check("/metrics has the bytes sent", metrics.includes("starling_bytes_sent_total{"));
  check("a POST is refused", await status_of(new URL("state", address()), { method: "POST" }) === 405);
  check("without the token nothing is told", await status_of(new URL("state", address()), {}) === 401);
  await page.setViewportSize(phone);
  await pause(600);
  check("a phone does not scroll sideways", !await scrolls_sideways());
  await page.setViewportSize(desktop);

  for (let i = 0; process.env.SCREENSHOTS && i < 40 && await points_of("accuracy") < 7; ++i) await pause(500);  // a fuller picture
  const trainers = trainers_of(run.pid);
  check("there are 4 trainers", trainers.size === 4, [...trainers.keys()].join());
  process.kill(trainers.get(2), "SIGKILL");
  await eventually("a killed worker is shown as lost", async () => await page.locator('.worker[data-rank="2"][data-state="lost"]').count() === 1);
  check("its row says so in words", /lost/.test(await words_of('.worker[data-rank="2"]')));
  check("its row is red", is_red(await colour_of('.worker[data-rank="2"] .state', "color")));
  check("its circle is red", is_red(await colour_of('.node[data-rank="2"] .body', "fill")));
  check("the log has it", /2/.test(await words_of("#log")) && /kill|signal|lost/.test(await words_of("#log")));
  check("a worker that is there is not red", !is_red(await colour_of('.node[data-rank="1"] .body', "fill")));
  const after = await bytes_of_edges(), points = await points_of("loss");
  await eventually("the others go on", async () => await bytes_of_edges() > after && await points_of("loss") > points
    && await page.locator('.worker[data-state="training"]').count() === 3);
  await picture("live.png", desktop, "light");
  await picture("live-phone.png", phone, "dark");
  check_quiet("a real run");

  run.kill("SIGINT");
  await eventually("the banner says that the run has ended", async () => /has ended/.test(await words_of("#banner")));
  await eventually("the program ends", async () => ended, 10);
  check("it leaves no trainer behind", [...trainers.values()].every(pid => !fs.existsSync(`/proc/${pid}`)));
}

try {
  await with_invented_states();
  await with_a_real_run();
} catch (error) {
  check("the test itself", false, error.stack);
} finally {
  await Promise.race([context.close(), pause(5000)]);
  clean_up();
}
console.log(failures === 0 ? "all is well" : `${failures} failed`);
process.exit(failures === 0 ? 0 : 1);
