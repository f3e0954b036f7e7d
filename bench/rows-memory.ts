// Memory of the platform process during and after 10,000 requests, some of them reads of 10 MB.
// Options: --requests, --pause (seconds).
import { once } from 'node:events'
import { Agent, type IncomingMessage, request as send } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { cpuMicros, report, residentMegabytes, rounded } from './measure.ts'
import { type RowsStage, requestOf, shapes, stageRows } from './rows-stage.ts'
import { onStage, type StagedServer } from './stage.ts'
import type { LoadRequest } from './wrk.ts'

const { values: given } = parseArgs({
  options: { requests: { type: 'string', default: '10000' }, pause: { type: 'string', default: '30' } },
})
const requestCount = Number(given.requests)
const pauseSeconds = Number(given.pause)
const atOnce = 16
/** One in this number of requests reads 1000 rows of 10 kB. */
const oneBigIn = 50
const stalledReaders = 16
const stallMs = 4000

const bulky = [
  'create table bulky (id bigint primary key, body text)',
  'alter table bulky alter column body set storage external, enable row level security',
  'create policy "all rows" on bulky for select to anon using (id > 0)',
  `insert into bulky select i, repeat(md5(i::text), 320) from generate_series(1, 1000) i`,
]
const bigRead = { path: 'bulky?limit=1000' }

await onStage(async stage => {
  const rows = await stageRows(stage, bulky)
  const platform = await rows.start()
  await sleep(5000)
  const started = residentMegabytes(platform.pid)
  const agent = new Agent({ keepAlive: true, maxSockets: atOnce })

  for (const shape of [...Object.values(shapes), bigRead])
    await readAll(platform, agent, requestOf(rows, shape))
  const afterOneOfEach = residentMegabytes(platform.pid)
  await sleep(pauseSeconds * 1000)
  // The start leaves garbage that is collected with the first large answer, so the lower value counts.
  const settled = residentMegabytes(platform.pid)
  const idle = Math.min(started, settled)

  const cpu = cpuMicros(platform.pid)
  const { peak, result: bytes } = await withPeak(platform, () => sendMixed(rows, platform, agent))
  const cpuUsed = cpuMicros(platform.pid) - cpu
  const rightAfter = residentMegabytes(platform.pid)
  agent.destroy()
  await sleep(pauseSeconds * 1000)
  const after = residentMegabytes(platform.pid)
  const common = {
    rss_mb: {
      started: rounded(started),
      after_one_of_each: rounded(afterOneOfEach),
      idle: rounded(idle),
      peak: rounded(peak),
      right_after: rounded(rightAfter),
      after_the_pause: rounded(after),
    },
    requests: requestCount,
    big_reads: Math.floor(requestCount / oneBigIn),
    megabytes_read: rounded(bytes / 2 ** 20),
    at_once: atOnce,
    node_cpu_us_per_request: rounded(cpuUsed / requestCount),
    pause_seconds: pauseSeconds,
  }
  report({
    bench: 'rows-memory',
    subject: `RSS over idle ${pauseSeconds} s after ${requestCount} mixed requests, one in ${oneBigIn} of 10 MB`,
    target: { atMost: 50 },
    measured: after - idle,
    unit: 'MB',
    ...common,
  })
  report({
    bench: 'rows-memory',
    subject: `peak RSS over idle during them, ${atOnce} at once`,
    measured: peak - idle,
    unit: 'MB',
    ...common,
  })

  const stalled = await withPeak(platform, () => stall(rows, platform))
  await sleep(pauseSeconds * 1000)
  report({
    bench: 'rows-memory',
    subject: `peak RSS over idle with ${stalledReaders} readers of 10 MB that pause for ${stallMs / 1000} s`,
    measured: stalled.peak - idle,
    unit: 'MB',
    rss_mb: {
      idle: rounded(idle),
      peak: rounded(stalled.peak),
      after_the_pause: rounded(residentMegabytes(platform.pid)),
    },
  })
})

async function sendMixed(rows: RowsStage, platform: StagedServer, agent: Agent): Promise<number> {
  const { byKey, page, embed, insert } = shapes
  const mix = [byKey, byKey, byKey, page, byKey, byKey, embed, byKey, page, insert]
  let next = 0
  let bytes = 0
  const work = async () => {
    while (next < requestCount) {
      const number = next++
      const shape = number % oneBigIn === 0 ? bigRead : mix[number % mix.length]!
      // Not `bytes += await …`: that would lose what others added during the wait.
      const read = await readAll(platform, agent, requestOf(rows, shape))
      bytes += read
    }
  }
  await Promise.all(Array.from({ length: atOnce }, work))
  return bytes
}

/** Clients that read the head of the answer, pause, and then read the rest. */
async function stall(rows: RowsStage, platform: StagedServer): Promise<void> {
  const agent = new Agent({ maxSockets: stalledReaders })
  const reader = async () => {
    const reply = await sendRequest(platform, agent, requestOf(rows, bigRead))
    await sleep(stallMs)
    if ((await drain(reply)) < 10_000_000) throw new Error('a stalled reader did not get its 10 MB')
  }
  await Promise.all(Array.from({ length: stalledReaders }, reader))
  agent.destroy()
}

async function readAll(platform: StagedServer, agent: Agent, request: LoadRequest): Promise<number> {
  return drain(await sendRequest(platform, agent, request))
}

async function sendRequest(
  { url }: StagedServer,
  agent: Agent,
  { method = 'GET', path, ids = 1, headers, body }: LoadRequest,
): Promise<IncomingMessage> {
  const id = 1 + Math.floor(Math.random() * ids)
  const sending = send(url + path.replace('{id}', String(id)), { agent, method, headers })
  sending.end(body)
  const [reply] = (await once(sending, 'response')) as [IncomingMessage]
  if (reply.statusCode !== 200 && reply.statusCode !== 201)
    throw new Error(`${path} answered ${reply.statusCode}`)
  return reply
}

async function drain(reply: IncomingMessage): Promise<number> {
  let bytes = 0
  for await (const chunk of reply as AsyncIterable<Buffer>) bytes += chunk.length
  return bytes
}

async function withPeak<T>(
  { pid }: StagedServer,
  work: () => Promise<T>,
): Promise<{ peak: number; result: T }> {
  let peak = 0
  const samplePeak = () => {
    peak = Math.max(peak, residentMegabytes(pid))
  }
  const timer = setInterval(samplePeak, 50)
  try {
    const result = await work()
    samplePeak()
    return { peak, result }
  } finally {
    clearInterval(timer)
  }
}
