-- Stages data for Slurm jobs with lighthaul: input before a job starts, and results after it has ended.
--
-- Install it as burst_buffer.lua beside slurm.conf, which has the line BurstBufferType=burst_buffer/lua. A job script
-- requests copies with lines such as
--
--   #BB_LUA lighthaul in=lh://far/set target=/scratch/set
--   #BB_LUA lighthaul in=lh://far/other target=/scratch/other book=yes
--   #BB_LUA lighthaul out=/scratch/results target=lh://far/results
--
-- Copies run as the user of the job, with the keys and settings of this user. `book=yes` books capacity, with the
-- estimated start of the job as the deadline. If no capacity is free before it, the copy books the earliest capacity.
--
-- slurmctld runs these functions, with Lua 5.1 or later. Newer versions of Slurm pass further arguments.

-- Names of the command and of a Slurm command.
local PROGRAM = "lighthaul"
local SQUEUE = "squeue"
-- Seconds before the estimated start within which a deadline is useless.
local SHORTEST = 30
-- Maximum number of seconds to wait for the next evaluation of a job. The first estimate may be the present time, even
-- if the job must wait for others.
local EVALUATION = 60
-- Exit status of `lighthaul cp` if the scheduler refuses the reservation.
local REFUSED = 40

local function quote(word)
    return "'" .. word:gsub("'", "'\\''") .. "'"
end

-- Runs a command. Returns its exit status and its output.
local function run(words)
    local pipe = io.popen(words .. ' 2>&1; echo "status $?"')
    local text = pipe:read("*a")
    pipe:close()
    local output, status = text:match("^(.-)\n?status (%d+)\n$")
    return tonumber(status) or 1, output or text
end

local function is_remote(place)
    return place:match("^lh://[^/]+") ~= nil or place:match("^[^-/:][^/:]*:.") ~= nil
end

-- Returns the copy that a directive requests; nil and an error message for an invalid directive.
local function parse(words)
    local copy = {}
    for word in words:gmatch("%S+") do
        local name, value = word:match("^(%a+)=(.+)$")
        if name == "in" or name == "out" then
            if copy.source then
                return nil, "a line can have only one in= or out="
            end
            copy.source, copy.direction = value, name
        elseif name == "target" then
            copy.target = value
        elseif name == "book" and (value == "yes" or value == "no") then
            copy.book = value == "yes"
        else
            return nil, "not known: " .. word
        end
    end
    if not copy.source or not copy.target then
        return nil, "a line needs in= or out=, and target="
    end
    local near, far = copy.target, copy.source
    if copy.direction == "out" then
        near, far = far, near
    end
    if near:sub(1, 1) ~= "/" then
        return nil, near .. " is not an absolute path of this cluster"
    end
    if not is_remote(far) then
        return nil, far .. " is not a place of another host, such as lh://far/data"
    end
    return copy
end

-- Returns the copies that a job script requests; nil and an error message for an invalid script.
local function directives(job_script)
    local file, failure = io.open(job_script)
    if not file then
        return nil, failure
    end
    local copies = {}
    for line in file:lines() do
        local words = line:match("^#BB_LUA%s+lighthaul%s+(.*)$")
        if words then
            local copy, why = parse(words)
            if not copy then
                file:close()
                return nil, why
            end
            copies[#copies + 1] = copy
        end
    end
    file:close()
    return copies
end

-- Returns what Slurm knows of a job: its user and group, and its estimated start as seconds, if there is one.
-- No field is asked for that a user can choose, such as the name: it could look like another field.
local function describe(job_id)
    local fields = "--Format=UserID:.20,GroupID:.20,StartTime:.30,LastSchedEval:.30"
    local status, text = run(SQUEUE .. " --noheader --states=all " .. fields .. " --jobs=" .. quote(tostring(job_id)))
    local uid, gid, start, evaluated = text:match("^%s*(%d+)%s+(%d+)%s+(%S+)%s+(%S+)%s*$")
    if status ~= 0 or not uid then
        return nil, text
    end
    if uid == "0" then
        return nil, "jobs of root have no copies"
    end
    local job = { uid = uid, gid = gid, evaluated = evaluated }
    local year, month, day, hour, min, sec = start:match("^(%d+)-(%d+)-(%d+)T(%d+):(%d+):(%d+)$")
    if year then
        job.start = os.time({ year = year, month = month, day = day, hour = hour, min = min, sec = sec })
    end
    return job
end

-- Returns a prefix that runs a command as the user of a job.
local function as_user(job)
    local _, own = run("id -u")
    if own == "0" then
        return "setpriv --reuid=" .. job.uid .. " --regid=" .. job.gid .. " --init-groups --reset-env -- "
    end
    if own == job.uid then
        return ""
    end
    return "sudo -n -H -u '#" .. job.uid .. "' -g '#" .. job.gid .. "' -- "
end

local function is_later(job)
    return job.start ~= nil and job.start - os.time() >= SHORTEST
end

-- Returns the options that book capacity, with the estimated start as deadline unless it is too near.
local function booking(job_id, job)
    local first, waited = job.evaluated, 0
    while not is_later(job) and job.evaluated == first and waited < EVALUATION do
        run("sleep 1")
        waited = waited + 1
        job = describe(job_id) or job
    end
    if is_later(job) then
        return " --book --by " .. quote(os.date("%Y-%m-%d %H:%M:%S", job.start))
    end
    return " --book"
end

-- Makes the copies in one direction. Returns the result for Slurm, and the output of a failed copy.
local function stage(direction, job_id, job_script)
    local copies, why = directives(job_script)
    local job
    if copies then
        job, why = describe(job_id)
    end
    if not job then
        return slurm.ERROR, "lighthaul: " .. why
    end
    local user = as_user(job)
    for _, copy in ipairs(copies) do
        if copy.direction == direction then
            local places = " -- " .. quote(copy.source) .. " " .. quote(copy.target)
            local command = user .. PROGRAM .. " cp --quiet"
            local options = ""
            if copy.book then
                -- copies of results have no deadline
                options = direction == "in" and booking(job_id, job) or " --book"
            end
            local status, output = run(command .. options .. places)
            if status == REFUSED and options:find("--by", 1, true) then
                slurm.log_info("lighthaul: job %s: no capacity before its start: %s", job_id, output)
                options = " --book"
                status, output = run(command .. options .. places)
            end
            slurm.log_info("lighthaul: job %s: cp%s%s: status %d", job_id, options, places, status)
            if status ~= 0 then
                return slurm.ERROR, output
            end
        end
    end
    return slurm.SUCCESS, ""
end

-- Checks the lines of a job script at its submission.
function slurm_bb_job_process(job_script)
    local copies, why = directives(job_script)
    if not copies then
        return slurm.ERROR, "lighthaul: " .. why
    end
    return slurm.SUCCESS
end

-- Sets LIGHTHAUL_STAGED for the job: the targets of its input copies, separated by colons.
function slurm_bb_paths(_, job_script, path_file)
    local targets = {}
    for _, copy in ipairs(directives(job_script) or {}) do
        if copy.direction == "in" then
            targets[#targets + 1] = copy.target
        end
    end
    if #targets > 0 then
        local file = io.open(path_file, "w")
        if not file then
            return slurm.ERROR, "lighthaul: cannot write " .. path_file
        end
        file:write("LIGHTHAUL_STAGED=", table.concat(targets, ":"), "\n")
        file:close()
    end
    return slurm.SUCCESS
end

function slurm_bb_data_in(job_id, job_script)
    return stage("in", job_id, job_script)
end

function slurm_bb_data_out(job_id, job_script)
    return stage("out", job_id, job_script)
end

-- The other functions do nothing: copies need no reserved buffer space.
function slurm_bb_pools()
    return slurm.SUCCESS
end

function slurm_bb_setup()
    return slurm.SUCCESS
end

function slurm_bb_test_data_in()
    return slurm.SUCCESS, ""
end

function slurm_bb_test_data_out()
    return slurm.SUCCESS, ""
end

function slurm_bb_real_size()
    return slurm.SUCCESS
end

function slurm_bb_pre_run()
    return slurm.SUCCESS
end

function slurm_bb_post_run()
    return slurm.SUCCESS
end

function slurm_bb_job_teardown()
    return slurm.SUCCESS
end

function slurm_bb_get_status()
    return slurm.SUCCESS, "lighthaul stages data for jobs with lines such as " ..
        "#BB_LUA lighthaul in=lh://far/set target=/scratch/set\n"
end
