// A message through a queue over HTTP (send, read, ack), against pgbench sending the same SQL; and in batches of a
// hundred, as messages per second of CPU. Options: --rounds, --seconds, --patience.
import { parseArgs } from 'node:util'
import { keyring } from '../apps/server/src/kernel/crypto/keys.ts'
import { withClient } from '../apps/server/src/kernel/postgres/database.ts'
import { statementsOf } from '../apps/server/src/services/queue/statements.ts'
import { createLogins } from '../apps/server/src/tenancy/logins.ts'
import { compare, interleave, medians, report } from './measure.ts'
import { pgbenchScript } from './pgbench.ts'
import { engineIn, onStage, projectsAt, refOf, startMain } from './stage.ts'
import { type LoadScript, loaded, luaText, usualHeaders } from './wrk.ts'

const { values: given } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '3' },
    patience: { type: 'string', default: '5' },
  },
})
const seconds = Number(given.seconds)
const connections = 32
const batch = 100
const plenty = 1_000_000_000
const message = { kind: 'mail', to: 'somebody@example.test', attempt: 1 }
/** The id for the ack, and the messages as the platform has them written. */
const readAnswer = `select max(msg_id) as msg_id, coalesce(json_agg(row_to_json(r) order by r.msg_id), '[]') as messages from taken r`
const atLeast = { ratio: 0.5, perCpuSecond: 20_000 }

await onStage(async stage => {
  const dataDir = stage.dataDir('platform')
  const platform = await startMain(stage, {}, dataDir)
  const { address, adminToken, controlPlaneSecret, postmaster } = engineIn(dataDir)
  const quotas = { rate_limit_service_role: plenty }
  const project = await projectsAt(platform.url, adminToken).create({ body: { name: 'bench', quotas } })
  const database = await refOf(address, project.id)
  const logins = createLogins(address, keyring(controlPlaneSecret))
  const owner = logins.address(database, 'owner')
  const svc = logins.address(database, 'svc')
  const names = ['single', 'batches', 'reference']
  const reset = () =>
    withClient(owner, database, {}, async session => {
      for (const name of names)
        await session.script(`select pgmq.drop_queue('${name}'); select pgmq.create('${name}')`)
      // Some to spare: what one reader has locked, another finds nothing of.
      for (const name of ['single', 'reference'])
        await session.script(
          `select pgmq.send('${name}', '${JSON.stringify(message)}') from generate_series(1, 200)`,
        )
    })

  const headers = { authorization: `Bearer ${project.service_role_key}`, 'content-type': 'application/json' }
  const request = (url: string, name: string, what: string, body: string) => {
    const lines = Object.entries({ host: new URL(url).host, ...usualHeaders, ...headers })
    const head = lines.map(([field, value]) => `${field}: ${value}`).join('\r\n')
    const path = `/v1/queue/${project.id}/queues/${name}/${what}`
    return `POST ${path} HTTP/1.1\r\n${head}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
  }

  /** What was read is acked before anything else; reads follow sends. */
  const single: LoadScript = {
    path: 'send, read, ack',
    lua: url => `
local send = ${luaText(request(url, 'single', 'send', JSON.stringify({ message })))}
local read = ${luaText(request(url, 'single', 'read', '{"vt":600}'))}
local ack, isSend = ${luaText(request(url, 'single', 'ack', '{"msg_id":@@@@@@@@@@}'))}, false
local ids, head, tail = {}, 1, 0
function request()
  if head <= tail then
    local id = ids[head]
    ids[head] = nil
    head = head + 1
    return (string.gsub(ack, '@+', string.format('%-10d', id)))
  end
  isSend = not isSend
  return isSend and send or read
end
function response(status, headers, body)
  local id = string.match(body, '^%[{"msg_id":(%d+)')
  if id then
    tail = tail + 1
    ids[tail] = tonumber(id)
  end
end`,
  }
  const messages = Array.from({ length: batch }, () => message)
  const inBatches: LoadScript = {
    path: 'batches of a hundred',
    lua: url => `
local send = ${luaText(request(url, 'batches', 'send_batch', JSON.stringify({ messages })))}
local read = ${luaText(request(url, 'batches', 'read', `{"vt":600,"qty":${batch}}`))}
local ackHead, ackTail, isSend = ${ackParts(request(platform.url, 'batches', 'ack', '@'))}, false
local waiting, head, tail = {}, 1, 0
function request()
  if head <= tail then
    local ids = waiting[head]
    waiting[head] = nil
    head = head + 1
    local body = '{"msg_ids":[' .. table.concat(ids, ',') .. ']}'
    return ackHead .. #body .. ackTail .. body
  end
  isSend = not isSend
  return isSend and send or read
end
function response(status, headers, body)
  if string.sub(body, 1, 11) == '[{"msg_id":' then
    local ids, n = {}, 0
    for id in string.gmatch(body, '{"msg_id":(%d+),"read_ct"') do
      n = n + 1
      ids[n] = id
    end
    tail = tail + 1
    waiting[tail] = ids
  end
end`,
  }

  const load = (script: LoadScript, name: string, forSeconds = seconds) =>
    loaded(platform, postmaster, script, {
      file: `${dataDir}/bench-${name}.lua`,
      seconds: forSeconds,
      connections,
    })
  const ours = async () => {
    await load(single, 'single', 1)
    const sample = await load(single, 'single')
    return { ...sample, per_second: sample['per_second']! / 3 }
  }
  const reference = () =>
    pgbenchScript(
      { address: svc, database, postmaster },
      {
        file: `${dataDir}/bench-reference.sql`,
        script: cycle('reference'),
        perRun: 1,
        clients: 16,
        seconds,
        settings: { role: 'service_role' },
      },
    )
  const batched = async () => {
    await load(inBatches, 'batches', 1)
    const sample = await load(inBatches, 'batches')
    const perMessage = ((sample['node_cpu_us']! + sample['postgres_cpu_us']!) * 3) / batch
    return { ...sample, cpu_us_per_message: perMessage, messages_per_cpu_second: 1e6 / perMessage }
  }

  await reset()
  await load(single, 'single', 2)
  await load(inBatches, 'batches', 2)
  const samples = await interleave(
    Number(given.rounds),
    { ours, reference, batched },
    Number(given.patience) * 1000,
  )
  await platform.stop()

  const throughput = compare(samples.ours, samples.reference, each => each['per_second']!)
  report({
    bench: 'queue',
    subject: 'send, read and ack of a message',
    target: { atLeast: atLeast.ratio },
    measured: throughput.ratio,
    unit: 'of the throughput of pgbench',
    range: throughput.range,
    ours: throughput.measured,
    pgbench: throughput.reference,
    rounds: throughput.rounds,
    round_seconds: seconds,
  })
  const typical = medians(samples.batched)
  report({
    bench: 'queue',
    subject: 'messages in batches of 100, sent, read and acked',
    target: { atLeast: atLeast.perCpuSecond },
    measured: typical['messages_per_cpu_second']!,
    unit: 'messages per second of CPU',
    ours: typical,
    round_seconds: seconds,
  })
})

/** The head of a request up to the length of its body, and from there to the body. */
function ackParts(text: string): string {
  const at = text.indexOf('content-length: ') + 'content-length: '.length
  const end = text.indexOf('\r\n', at)
  return `${luaText(text.slice(0, at))}, ${luaText(text.slice(end, text.indexOf('\r\n\r\n', end) + 4))}`
}

/** Each statement with the settings of a caller before it, as the platform sends them; what is read must be known. */
function cycle(name: string): string {
  const { send, read, ack } = statementsOf(name)
  const become = `select set_config('role', 'service_role', true), set_config('request.jwt.claims', '{"role":"service_role"}', true), set_config('request.user_id', '', true), set_config('request.method', 'POST', true), set_config('request.path', '/queue', true), set_config('request.headers', '{}', true), set_config('statement_timeout', '8000', true), set_config('transaction_read_only', 'off', true), pg_advisory_unlock_all();`
  const fill = (sql: string, ...values: string[]) =>
    `${sql
      .replace(/\$(\d)/g, (_, place: string) => values[Number(place) - 1]!)
      .replace(/\s+/g, ' ')
      .trim()}`
  return `
\\startpipeline
${become}
${fill(send.sql, `'${JSON.stringify({ message })}'`, `'0'`)};
\\endpipeline
${fill(read.sql, `'0'`, `'600'`, `'1'`).replace(/\) select case when .*$/, `) ${readAnswer}`)} \\gset
\\startpipeline
${become}
${fill(ack.sql, `'{:msg_id}'`).replace(`'{:msg_id}'`, 'array[:msg_id]')};
\\endpipeline
`
}
