import type { ErrorMeaning } from './error-meaning.ts'

export const branchesErrors = {
  branch_not_found: { status: 404, meaning: 'The project has no branch with this slug.' },
  branch_exists: { status: 409, meaning: 'The project has another branch with this slug.' },
  branch_not_ready: {
    status: 409,
    meaning: 'Branches: it is being created or reset, or its creation has failed; the list shows the state.',
  },
  branch_of_branch: { status: 400, meaning: 'A branch cannot have branches; create one of its parent.' },
  branch_source_unsupported: {
    status: 400,
    meaning: 'A branch has the present state of its parent; `from` cannot be anything but `current`.',
  },
  project_has_branches: {
    status: 409,
    meaning: 'A project cannot be deleted while it has branches; delete them first.',
  },
  too_many_branches: {
    status: 429,
    meaning: 'The project has as many branches as its quota `max_branches` allows.',
  },
} as const satisfies Record<string, ErrorMeaning>
