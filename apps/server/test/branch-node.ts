// A node in its own process that makes branches until it is killed. It may hold requests of a parent for as long as it needs.
import { anyHoldMs } from './branch-project.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

const beside = JSON.parse(process.argv[2]!) as TestPlatform
const { url } = await startPlatform({ beside, branchHoldMs: anyHoldMs })
process.stdout.write(`running at ${url}\n`)
