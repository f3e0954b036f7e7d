// A node in its own process, to be killed by a test. It joins, queues one mail and keeps running.
import { startPlatform, type TestPlatform } from '../harness.ts'
import { enqueueMail } from './enqueue.ts'

const { beside, projectId, to } = JSON.parse(process.argv[2]!) as {
  beside: Pick<TestPlatform, 'control' | 'adminToken' | 'controlPlaneSecret' | 'config'>
  projectId: string
  to: string
}
const node = await startPlatform({ beside: beside as TestPlatform })
const values = { user_name: 'Ada', action_url: 'https://app.test/', expires_in: '1 hour' }
await enqueueMail(node, projectId, { to, template: 'welcome', values })
