// A node in its own process that dies between the commit of a mail and its relay.
import { startPlatform, type TestPlatform } from '../harness.ts'

const { beside, projectId } = JSON.parse(process.argv[2]!) as {
  beside: Pick<TestPlatform, 'control' | 'adminToken' | 'controlPlaneSecret' | 'config'>
  projectId: string
}
const { app } = await startPlatform({ beside: beside as TestPlatform })
const tenant = (await app.directory.find(projectId))!
const values = { user_name: 'Ada', action_url: 'https://app.test/', expires_in: '1 hour' }
await app.databases
  .auth(tenant)
  .transaction(session =>
    app.email.enqueue(session, tenant, { to: 'ada@example.test', template: 'welcome', values }),
  )
process.kill(process.pid, 'SIGKILL')
