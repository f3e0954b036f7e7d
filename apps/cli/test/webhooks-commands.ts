// The commands of webhooks for a project of a platform.
import assert from 'node:assert/strict'
import { after } from 'node:test'
import type { TestPlatform } from '../../server/test/harness.ts'
import { type WebhookProject, webhookProject } from '../../server/test/webhook-project.ts'
import { begin, type RunOptions, type RunResult, plinth as run, temporaryDirectory } from './plinth.ts'
import { codes } from './storage-project.ts'

export interface WebhooksCommands {
  project: WebhookProject
  cwd: string
  webhooks(args: string[], options?: RunOptions): Promise<RunResult>
  /** Returns the data. */
  done(...args: string[]): Promise<any>
  /** Returns the text on stdout and on stderr. */
  text(...args: string[]): Promise<[stdout: string, stderr: string]>
  /** Returns the code, message and suggestion. */
  failed(...args: string[]): Promise<any>
  listen(args: string[], options?: RunOptions): Listening
}

export interface Listening {
  /** What was printed to stdout, parsed. */
  lines(): any[]
  stdout(): string
  stderr(): string
  hasEnded(): boolean
  /** As Ctrl-C does. Returns the exit code. */
  interrupt(): Promise<number>
  ended: Promise<number>
}

export async function webhooksCommands(platform: TestPlatform): Promise<WebhooksCommands> {
  const project = await webhookProject(platform)
  const cwd = temporaryDirectory()
  const environment = {
    PLATFORM_URL: platform.url,
    PLATFORM_TOKEN: platform.adminToken,
    PLATFORM_PROJECT: project.id,
  }
  const optionsOf = (options: RunOptions) => ({ cwd, ...options, env: { ...environment, ...options.env } })
  const webhooks = (args: string[], options: RunOptions = {}) =>
    run(['webhooks', ...args], optionsOf(options))
  const succeed = async (args: string[]) => {
    const ran = await webhooks(args)
    assert.equal(ran.code, 0, `${args.join(' ')}: ${ran.stdout} ${ran.stderr}`)
    return ran
  }
  return {
    project,
    cwd,
    webhooks,
    done: async (...args) => (await succeed(args)).json.data,
    async text(...args) {
      const { stdout, stderr } = await succeed([...args, '-o', 'text'])
      return [stdout, stderr]
    },
    async failed(...args) {
      const ran = await webhooks(args)
      assert.equal(codes(ran)[0], 1, `${args.join(' ')}: ${ran.stdout}`)
      return ran.json.error
    },
    listen(args, options = {}) {
      const running = begin(['webhooks', 'listen', ...args], optionsOf(options))
      after(running.interrupt)
      return {
        ...running,
        lines: () =>
          running
            .stdout()
            .split('\n')
            .filter(Boolean)
            .map(line => JSON.parse(line)),
        interrupt() {
          running.interrupt()
          return running.ended
        },
      }
    },
  }
}
