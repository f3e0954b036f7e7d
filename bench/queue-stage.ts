// A project with queues on a platform started as the product starts it, and scripts that put messages through them.
import { keyring } from '../apps/server/src/kernel/crypto/keys.ts'
import { withClient } from '../apps/server/src/kernel/postgres/database.ts'
import type { ServerAddress } from '../apps/server/src/kernel/postgres/server-address.ts'
import { createLogins } from '../apps/server/src/tenancy/logins.ts'
import type { Sample } from './measure.ts'
import { engineIn, projectsAt, refOf, type Stage, type StagedServer, startMain } from './stage.ts'
import { type LoadScript, loaded, luaText, usualHeaders } from './wrk.ts'

export const message = { kind: 'mail', to: 'ann@example.test', attempt: 1 }
export const batch = 100
const connections = 32
const unlimited = 1_000_000_000

export interface QueueStage {
  platform: StagedServer
  /** The server's superuser. */
  address: ServerAddress
  postmaster: number
  database: string
  /** The login that works as service_role. */
  svc: ServerAddress
  /** The path of a file of the stage, such as a script. */
  file(name: string): string
  /** Sends, reads and acks, a message at a time. */
  single: LoadScript
  inBatches: LoadScript
  load(script: LoadScript, seconds: number): Promise<Sample>
}

export async function stageQueues(stage: Stage): Promise<QueueStage> {
  const dataDir = stage.dataDir('platform')
  const platform = await startMain(stage, {}, dataDir)
  const { address, adminToken, controlPlaneSecret, postmaster } = engineIn(dataDir)
  const quotas = { rate_limit_service_role: unlimited }
  const project = await projectsAt(platform.url, adminToken).create({ body: { name: 'bench', quotas } })
  const database = await refOf(address, project.id)
  const logins = createLogins(address, keyring(controlPlaneSecret))
  await withClient(logins.address(database, 'owner'), database, {}, async session => {
    for (const name of ['single', 'batches', 'reference'])
      await session.script(`select pgmq.create('${name}')`)
    // Some extra messages, because readers skip messages that another reader has locked.
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

  /** Acks what was read before anything else. Reads follow sends. */
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

  return {
    platform,
    address,
    postmaster,
    database,
    svc: logins.address(database, 'svc'),
    file: name => `${dataDir}/${name}`,
    single,
    inBatches,
    load: (script, seconds) =>
      loaded(platform, postmaster, script, { file: `${dataDir}/bench.lua`, seconds, connections }),
  }
}

/** The head of a request up to the length of its body, and from there to the body. */
function ackParts(text: string): string {
  const at = text.indexOf('content-length: ') + 'content-length: '.length
  const end = text.indexOf('\r\n', at)
  return `${luaText(text.slice(0, at))}, ${luaText(text.slice(end, text.indexOf('\r\n\r\n', end) + 4))}`
}
