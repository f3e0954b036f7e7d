// The platform as main.ts starts it with its own engine, with one more route that queries the project database.

import type { Routes } from '@plinth/contract/route.ts'
import { Id } from '@plinth/contract/shapes.ts'
import { Type } from 'typebox'
import { createApp } from '../apps/server/src/app.ts'
import { readConfig } from '../apps/server/src/config.ts'
import { randomToken } from '../apps/server/src/kernel/crypto/keys.ts'
import { lockDataDirectory } from '../apps/server/src/kernel/data-directory.ts'
import { createLog } from '../apps/server/src/kernel/log.ts'
import { startEngine } from '../apps/server/src/kernel/postgres/engine/start.ts'
import { statement } from '../apps/server/src/tenancy/databases.ts'

const routes = {
  read: {
    plane: 'data',
    method: 'GET',
    path: '/select/{project}',
    allow: ['anon', 'authenticated', 'service_role'],
    summary: 'select 1 as the caller',
    params: Type.Object({ project: Id }),
    reply: Type.Object({ answer: Type.String() }),
  },
} as const satisfies Routes

const config = readConfig(process.env)
const log = createLog(config.logLevel)
const directory = lockDataDirectory(config.dataDir)
const secrets = directory.secrets(randomToken)
const engine = await startEngine({
  dataDir: config.dataDir,
  superuserPassword: secrets.POSTGRES_PASSWORD,
  log,
})
const { socketDir: host, port, user } = engine
const app = await createApp({
  config,
  server: {
    address: { host, port, user, password: secrets.POSTGRES_PASSWORD, tls: undefined },
    control: 'plinth',
  },
  controlPlaneSecret: secrets.CONTROL_PLANE_SECRET,
  adminToken: secrets.PLATFORM_ADMIN_TOKEN,
  log,
})
const selectOne = statement('select 1', true)
app.http.mount('bench', app.planes.data, routes, {
  async read(_input, caller, { method, path, headers }) {
    const facts = { method, path, headers: JSON.stringify(headers) }
    const { rows } = await app.databases.asCaller(caller, facts, selectOne, [])
    return { answer: String(rows[0]![0]) }
  },
})
process.stderr.write(`running at ${await app.listen()}\n`)
process.once('SIGTERM', async () => {
  await app.close()
  await engine.stop()
  directory.release()
})
