// The platform as main.ts starts it on an existing Postgres, without the access log if ACCESS_LOG is `off`.
import { createApp } from '../apps/server/src/app.ts'
import { readConfig } from '../apps/server/src/config.ts'
import { createLog } from '../apps/server/src/kernel/log.ts'

const config = readConfig(process.env)
const { address, database } = config.external!
const app = await createApp({
  config,
  server: { address, control: database },
  controlPlaneSecret: config.controlPlaneSecret!,
  adminToken: config.adminToken,
  log: createLog(config.logLevel),
  accessLog: process.env['ACCESS_LOG'] !== 'off',
})
process.stderr.write(`running at ${await app.listen()}\n`)
process.once('SIGTERM', () => void app.close())
