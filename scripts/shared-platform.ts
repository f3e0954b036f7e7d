// One platform for all conformance files that do not need their own, in a separate process. It sends its address to its
// parent over the IPC channel, and stops when the channel is closed.
import { startPlatform } from '../apps/server/test/harness.ts'

// Open routes are limited by address, and all files have the same one.
const platform = await startPlatform({ settings: { PLATFORM_RATE_LIMIT_ANON: '0' } })
process.send!({ url: platform.url, adminToken: platform.adminToken })
process.on('disconnect', () => void platform.stop())
