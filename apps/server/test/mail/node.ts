// A node of a platform as a process of its own, to be killed: joins, queues one mail and goes on.
import { startPlatform, type TestPlatform } from '../harness.ts'

const { beside, projectId, to } = JSON.parse(process.argv[2]!) as {
  beside: Pick<TestPlatform, 'control' | 'adminToken' | 'controlPlaneSecret' | 'config'>
  projectId: string
  to: string
}
const { app } = await startPlatform({ beside: beside as TestPlatform })
const values = { user_name: 'Ada', action_url: 'https://app.test/', expires_in: '1 hour' }
await app.email.enqueue((await app.directory.find(projectId))!, { to, template: 'welcome', values })
