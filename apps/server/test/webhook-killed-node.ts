// A node in its own process that delivers webhooks until it is killed.
import { startPlatform, type TestPlatform } from './harness.ts'

const beside = JSON.parse(process.argv[2]!) as TestPlatform
await startPlatform({ beside })
process.stdout.write('ready\n')
