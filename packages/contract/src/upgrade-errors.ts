import type { ErrorMeaning } from './error-meaning.ts'

export const upgradeErrors = {
  invalid_target: {
    status: 400,
    meaning:
      'Upgrade: `target` is not a semantic version or is older than the installed release, or the databases are those of a newer release.',
  },
  upgrade_not_installed: {
    status: 409,
    meaning:
      'Upgrade: `target` is newer than the installed release; install it and start the platform again.',
  },
  upgrade_running: { status: 409, meaning: 'Upgrade: one is being executed; wait until it has ended.' },
  upgrade_snapshot_failed: {
    status: 500,
    meaning:
      'Upgrade: a backup could not be made or the control database not be migrated, so nothing was changed. The message says what and why.',
  },
  upgrade_incomplete: {
    status: 500,
    meaning:
      'Upgrade: some projects could not be upgraded and keep their old state, `manifest.failed` has the reasons; or the platform could not begin to serve, as the message says. `manifest.done` was upgraded.',
  },
  upgrade_pending: {
    status: 503,
    meaning:
      'The platform waits for the operator before it upgrades its databases (`PLATFORM_UPGRADE=manual`); `plinth upgrade --yes` executes the upgrade.',
  },
} as const satisfies Record<string, ErrorMeaning>
